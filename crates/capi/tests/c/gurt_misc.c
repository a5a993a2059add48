/* Settings, memory, lists and messages of libgurt. */
#define _GNU_SOURCE
#include "harness.h"
#include <gurt/common.h>

static void
variables_are_read(void)
{
	bool         yes = false;
	char         letter = 0, *text = NULL;
	unsigned int number = 0;
	uint64_t     wide   = 0;

	setenv("T_BOOL", "true", 1);
	setenv("T_CHAR", "c", 1);
	setenv("T_INT", "42", 1);
	setenv("T_WIDE", "0x100000000", 1);
	OK(d_getenv_bool("T_BOOL", &yes));
	CHECK(yes);
	GIVES(d_getenv_bool("T_NONE", &yes), -DER_NONEXIST);
	GIVES(d_getenv_bool("T_INT", &yes), -DER_INVAL);
	CHECK(yes);
	OK(d_getenv_char("T_CHAR", &letter));
	GIVES(letter, 'c');
	OK(d_getenv_int("T_INT", &number));
	GIVES(number, 42);
	number = 0;
	OK(d_getenv_uint("T_INT", &number));
	GIVES(number, 42);
	number = 0;
	OK(d_getenv_uint32_t("T_INT", &number));
	GIVES(number, 42);
	GIVES(d_getenv_uint("T_WIDE", &number), -DER_INVAL);
	OK(d_getenv_uint64_t("T_WIDE", &wide));
	GIVES(wide, 0x100000000LL);
	OK(d_agetenv_str(&text, "T_BOOL"));
	CHECK(strcmp(text, "true") == 0);
	d_freeenv_str(&text);
	CHECK(text == NULL);
	GIVES(d_agetenv_str(&text, "T_NONE"), -DER_NONEXIST);
	GIVES(d_getenv_bool(NULL, &yes), -DER_INVAL);
}

static void
memory_comes_and_goes(void)
{
	d_rank_list_t *ranks;
	char          *text, *more;
	int           *list, rc = 0;

	text = d_calloc(3, 5);
	CHECK(text != NULL && text[0] == 0 && text[14] == 0);
	text = d_realloc(text, 100);
	CHECK(text != NULL && text[14] == 0);
	d_free(text);
	text = d_malloc(10);
	CHECK(text != NULL);
	d_free(text);
	text = d_strndup("stones", 5);
	CHECK(strcmp(text, "stone") == 0);
	d_free(text);
	D_STRNDUP(text, "stone", 3);
	CHECK(strcmp(text, "sto") == 0);
	D_REALLOC(more, text, 4, 10);
	CHECK(strcmp(more, "sto") == 0 && more[9] == 0);
	D_FREE(more);
	CHECK(more == NULL);
	D_ALLOC_ARRAY(list, 4);
	CHECK(list != NULL && list[3] == 0);
	D_FREE(list);
	D_ALLOC_PTR(ranks);
	ranks->rl_nr = 2;
	D_ALLOC_ARRAY(ranks->rl_ranks, 2);
	d_rank_list_free(ranks);
	d_rank_list_free(NULL);
	D_ASPRINTF(text, "%d", 7);
	CHECK(text != NULL && strcmp(text, "7") == 0);
	D_FREE(text);
	text = d_asprintf2(&rc, "%s-%d", "stone", 7);
	CHECK(rc == 7 && strcmp(text, "stone-7") == 0);
	d_free(text);
}

struct item {
	d_list_t link;
	int      number;
};

static void
lists_have_links_inside(void)
{
	D_LIST_HEAD(head);
	struct item  items[3] = {{.number = 0}, {.number = 1}, {.number = 2}};
	struct item *item, *tmp;
	int          sum = 0;

	CHECK(d_list_empty(&head));
	d_list_add(&items[1].link, &head);
	d_list_add_tail(&items[2].link, &head);
	d_list_add(&items[0].link, &head);
	d_list_for_each_entry(item, &head, link)
		sum = sum * 10 + item->number;
	GIVES(sum, 12);
	d_list_move_tail(&items[0].link, &head);
	CHECK(d_list_first_entry(&head, struct item, link) == &items[1]);
	d_list_for_each_entry_safe(item, tmp, &head, link)
		d_list_del_init(&item->link);
	CHECK(d_list_empty(&head) && d_list_empty(&items[2].link));
}

static int
fails(int rc)
{
	int left = 0;

	if (rc != 0)
		D_GOTO(out, left = 1);
	left = 2;
out:
	D_DEBUG(1, "not seen: " DF_RC "\n", DP_RC(rc));
	return left;
}

static void
messages_name_errors(void)
{
	char text[128];

	snprintf(text, sizeof(text), DF_RC, DP_RC(-DER_NONEXIST));
	CHECK(strncmp(text, "DER_NONEXIST(-1005): '", 22) == 0);
	GIVES(fails(1), 1);
	GIVES(fails(0), 2);
}

TESTS(TEST(variables_are_read), TEST(memory_comes_and_goes), TEST(lists_have_links_inside), TEST(messages_name_errors))
