/* Lists of properties. */
#include "harness.h"

static void
lists_are_made_and_freed(void)
{
	daos_prop_t *prop = daos_prop_alloc(2);

	CHECK(prop != NULL && prop->dpp_nr == 2 && prop->dpp_entries[1].dpe_type == 0);
	prop->dpp_entries[0].dpe_type = DAOS_PROP_CO_LABEL;
	prop->dpp_entries[0].dpe_str  = strdup("x");
	daos_prop_fini(prop);
	CHECK(prop->dpp_nr == 0 && prop->dpp_entries == NULL);
	daos_prop_free(prop);
	daos_prop_free(NULL);
	CHECK(daos_prop_alloc(DAOS_PROP_ENTRIES_MAX_NR + 1) == NULL);
}

static void
texts_and_addresses_are_copied(void)
{
	daos_prop_t              *prop = daos_prop_alloc(4);
	struct daos_prop_entry   *e    = prop->dpp_entries;
	struct daos_prop_co_roots roots = {{{1, 2}}};
	const char               *strs[1] = {"A::OWNER@:rw"};
	struct daos_acl          *acl;

	e[0].dpe_type = DAOS_PROP_CO_LABEL;
	e[1].dpe_type = DAOS_PROP_CO_ROOTS;
	e[2].dpe_type = DAOS_PROP_CO_ACL;
	e[3].dpe_type = DAOS_PROP_CO_ROOTS;
	OK(daos_prop_set_str(prop, DAOS_PROP_CO_LABEL, "label", 5));
	OK(daos_prop_entry_set_str(&e[0], "other", 5));
	CHECK(strcmp(e[0].dpe_str, "other") == 0);
	GIVES(daos_prop_entry_set_str(&e[1], "other", 5), -DER_INVAL);
	GIVES(daos_prop_set_str(prop, DAOS_PROP_CO_OWNER, "x", 1), -DER_NONEXIST);
	OK(daos_prop_set_ptr(prop, DAOS_PROP_CO_ROOTS, &roots, sizeof(roots)));
	OK(daos_acl_from_strs(strs, 1, &acl));
	OK(daos_prop_entry_set_ptr(&e[2], acl, daos_acl_get_size(acl)));
	GIVES(daos_prop_entry_set_ptr(&e[0], acl, 8), -DER_INVAL);
	OK(daos_prop_entry_dup_co_roots(&e[3], &e[1]));
	CHECK(((struct daos_prop_co_roots *)e[3].dpe_val_ptr)->cr_oids[0].hi == 2);
	((struct daos_prop_co_roots *)e[3].dpe_val_ptr)->cr_oids[0].hi = 9;
	OK(daos_prop_entry_dup_ptr(&e[3], &e[1], sizeof(roots)));
	CHECK(((struct daos_prop_co_roots *)e[3].dpe_val_ptr)->cr_oids[0].hi == 2);
	OK(daos_prop_entry_cmp_acl(&e[2], &e[2]));
	CHECK(daos_prop_has_str(&e[0]) && !daos_prop_has_str(&e[1]) && daos_prop_has_ptr(&e[2]) && !daos_prop_has_ptr(&e[0]));
	CHECK(daos_prop_entry_get(prop, DAOS_PROP_CO_ACL) == &e[2] && daos_prop_entry_get(prop, 1) == NULL);
	daos_acl_free(acl);
	daos_prop_free(prop);
}

static void
different_acls_compare_as_such(void)
{
	const char            *one[1] = {"A::OWNER@:rw"}, *two[1] = {"A::OWNER@:r"};
	struct daos_prop_entry a = {.dpe_type = DAOS_PROP_CO_ACL}, b = {.dpe_type = DAOS_PROP_CO_ACL};

	OK(daos_acl_from_strs(one, 1, (struct daos_acl **)&a.dpe_val_ptr));
	OK(daos_acl_from_strs(two, 1, (struct daos_acl **)&b.dpe_val_ptr));
	GIVES(daos_prop_entry_cmp_acl(&a, &b), -DER_MISMATCH);
	daos_acl_free(a.dpe_val_ptr);
	daos_acl_free(b.dpe_val_ptr);
}

static void
lists_are_merged(void)
{
	daos_prop_t *old = daos_prop_alloc(2), *new = daos_prop_alloc(2), *all;

	old->dpp_entries[0].dpe_type = DAOS_PROP_CO_LABEL;
	OK(daos_prop_entry_set_str(&old->dpp_entries[0], "old", 3));
	old->dpp_entries[1].dpe_type = DAOS_PROP_CO_CSUM;
	old->dpp_entries[1].dpe_val  = 1;
	new->dpp_entries[0].dpe_type = DAOS_PROP_CO_LABEL;
	OK(daos_prop_entry_set_str(&new->dpp_entries[0], "new", 3));
	new->dpp_entries[1].dpe_type = DAOS_PROP_CO_DEDUP;
	all = daos_prop_merge(old, new);
	CHECK(all->dpp_nr == 3 && strcmp(daos_prop_entry_get(all, DAOS_PROP_CO_LABEL)->dpe_str, "new") == 0);
	CHECK(daos_prop_entry_get(all, DAOS_PROP_CO_CSUM)->dpe_val == 1);
	daos_prop_free(all);
	OK(daos_prop_merge2(old, NULL, &all));
	CHECK(all->dpp_nr == 2 && all->dpp_entries[0].dpe_str != old->dpp_entries[0].dpe_str);
	daos_prop_free(all);
	GIVES(daos_prop_merge2(NULL, NULL, &all), -DER_INVAL);
	daos_prop_free(old);
	daos_prop_free(new);
}

static void
lists_are_read_from_text(void)
{
	const char  *text = "label:mine;cksum:crc32;rd_fac:0;ec_cell_sz:64K";
	daos_prop_t *prop = NULL;

	OK(daos_prop_from_str(text, strlen(text), &prop));
	CHECK(prop->dpp_nr == 4 && strcmp(daos_prop_entry_get(prop, DAOS_PROP_CO_LABEL)->dpe_str, "mine") == 0);
	CHECK(daos_prop_entry_get(prop, DAOS_PROP_CO_CSUM)->dpe_val == DAOS_PROP_CO_CSUM_CRC32);
	CHECK(daos_prop_entry_get(prop, DAOS_PROP_CO_EC_CELL_SZ)->dpe_val == 65536);
	daos_prop_free(prop);
	GIVES(daos_prop_from_str("cksum:md5", 9, &prop), -DER_INVAL);
	GIVES(daos_prop_from_str(NULL, 9, &prop), -DER_INVAL);
	GIVES(daos_prop_from_str(text, strlen(text), NULL), -DER_INVAL);
}

TESTS(TEST(lists_are_made_and_freed), TEST(texts_and_addresses_are_copied), TEST(different_acls_compare_as_such),
      TEST(lists_are_merged), TEST(lists_are_read_from_text))
