/* Access control lists. */
#include <fcntl.h>
#include "harness.h"

static const char *strs[4] = {"A::OWNER@:rw", "A::ann@:rw", "A:G:GROUP@:r", "A:G:staff@lab:rT"};

static void
lists_are_read_and_written_as_text(void)
{
	struct daos_acl *acl, *copy;
	char           **texts;
	size_t           nr, i;
	const char      *bad[1] = {"A::nobody:r"};

	OK(daos_acl_from_strs(strs, 4, &acl));
	OK(daos_acl_validate(acl));
	OK(daos_acl_to_strs(acl, &texts, &nr));
	GIVES(nr, 4);
	for (i = 0; i < nr; i++) {
		CHECK(strcmp(texts[i], strs[i]) == 0);
		free(texts[i]);
	}
	free(texts);
	copy = daos_acl_dup(acl);
	CHECK(copy != acl && daos_acl_get_size(copy) == daos_acl_get_size(acl));
	CHECK(daos_acl_get_size(acl) == (ssize_t)(8 + acl->dal_len));
	copy->dal_ver = 9;
	GIVES(daos_acl_validate(copy), -DER_INVAL);
	GIVES(daos_acl_validate(NULL), -DER_INVAL);
	daos_acl_free(copy);
	daos_acl_free(acl);
	GIVES(daos_acl_from_strs(bad, 1, &acl), -DER_INVAL);
	GIVES(daos_acl_from_strs(NULL, 1, &acl), -DER_INVAL);
}

static void
entries_are_walked_found_added_and_removed(void)
{
	struct daos_acl *acl;
	struct daos_ace *ace = NULL, *fresh;
	int              count = 0;

	OK(daos_acl_from_strs(strs, 4, &acl));
	while ((ace = daos_acl_get_next_ace(acl, ace)) != NULL)
		count++;
	GIVES(count, 4);
	OK(daos_acl_get_ace_for_principal(acl, DAOS_ACL_USER, "ann@", &ace));
	CHECK(strcmp(daos_ace_get_principal_str(ace), "ann@") == 0 && ace->dae_allow_perms == 3);
	GIVES(daos_acl_get_ace_for_principal(acl, DAOS_ACL_USER, "bob@", &ace), -DER_NONEXIST);
	OK(daos_ace_from_str("A::bob@:r", &fresh));
	OK(daos_acl_add_ace(&acl, fresh));
	OK(daos_acl_get_ace_for_principal(acl, DAOS_ACL_USER, "bob@", &ace));
	CHECK(ace->dae_allow_perms == 1);
	OK(daos_acl_remove_ace(&acl, DAOS_ACL_USER, "ann@"));
	GIVES(daos_acl_remove_ace(&acl, DAOS_ACL_USER, "ann@"), -DER_NONEXIST);
	daos_ace_free(fresh);
	daos_acl_free(acl);
}

static void
entries_are_made_one_by_one(void)
{
	struct daos_ace *aces[2], *same[2];
	struct daos_acl *acl;
	char             buf[DAOS_ACL_MAX_ACE_STR_LEN + 1];

	aces[0] = daos_ace_create(DAOS_ACL_GROUP, "staff@");
	aces[1] = daos_ace_create(DAOS_ACL_OWNER, NULL);
	CHECK(daos_ace_create(DAOS_ACL_USER, "nobody") == NULL);
	CHECK(aces[0]->dae_principal_len == 8 && daos_ace_get_size(aces[0]) == 40 && daos_ace_get_size(aces[1]) == 32);
	CHECK(!daos_ace_is_valid(aces[0]));
	aces[0]->dae_access_types = aces[1]->dae_access_types = DAOS_ACL_ACCESS_ALLOW;
	aces[0]->dae_allow_perms = DAOS_ACL_PERM_READ | DAOS_ACL_PERM_WRITE;
	CHECK(daos_ace_is_valid(aces[0]));
	OK(daos_ace_to_str(aces[0], buf, sizeof(buf)));
	CHECK(strcmp(buf, "A:G:staff@:rw") == 0);
	GIVES(daos_ace_to_str(aces[0], buf, 5), -DER_TRUNC);
	OK(daos_ace_str_get_verbose("A:G:staff@:rw", buf, sizeof(buf)));
	CHECK(strcmp(buf, "Allow:Group:staff@:Read/Write") == 0);
	acl = daos_acl_create(aces, 2);
	CHECK(acl != NULL && daos_acl_get_next_ace(acl, NULL)->dae_principal_type == DAOS_ACL_OWNER);
	daos_acl_free(acl);
	same[0] = same[1] = aces[0];
	CHECK(daos_acl_create(same, 2) == NULL);
	daos_ace_free(aces[0]);
	daos_ace_free(aces[1]);
}

static void
principals_are_users_and_groups(void)
{
	enum daos_acl_principal_type type;
	char                        *name;
	uid_t                        uid = 9;
	gid_t                        gid = 9;

	CHECK(daos_acl_principal_is_valid("ann@") && daos_acl_principal_is_valid("ann@lab"));
	CHECK(!daos_acl_principal_is_valid("ann") && !daos_acl_principal_is_valid("@lab") && !daos_acl_principal_is_valid(NULL));
	OK(daos_acl_uid_to_principal(0, &name));
	CHECK(strcmp(name, "root@") == 0);
	free(name);
	OK(daos_acl_gid_to_principal(0, &name));
	CHECK(strcmp(name, "root@") == 0);
	free(name);
	OK(daos_acl_principal_to_uid("root@", &uid));
	OK(daos_acl_principal_to_gid("root@", &gid));
	CHECK(uid == 0 && gid == 0);
	GIVES(daos_acl_principal_to_uid("no-such-user@", &uid), -DER_NONEXIST);
	GIVES(daos_acl_principal_to_gid("no-such-group@", &gid), -DER_NONEXIST);
	GIVES(daos_acl_principal_to_uid("root", &uid), -DER_INVAL);
	GIVES(daos_acl_uid_to_principal(4000000001u, &name), -DER_NONEXIST);
	OK(daos_acl_principal_from_str("u:ann", &type, &name));
	CHECK(type == DAOS_ACL_USER && strcmp(name, "ann@") == 0);
	free(name);
	OK(daos_acl_principal_from_str("OWNER@", &type, &name));
	CHECK(type == DAOS_ACL_OWNER && name == NULL);
	GIVES(daos_acl_principal_from_str("ann", &type, &name), -DER_INVAL);
}

/* What was printed so far. */
static const char *
printed(char *buf, size_t room)
{
	FILE  *file = fopen("printed", "r");
	size_t len  = fread(buf, 1, room - 1, file);

	fclose(file);
	buf[len] = 0;
	return buf;
}

static void
lists_are_printed(void)
{
	struct daos_acl *acl;
	struct daos_ace *ace;
	char             buf[512] = {0};
	FILE            *stream   = fmemopen(buf, sizeof(buf), "w");
	int              out, file;

	OK(daos_acl_from_strs(strs, 2, &acl));
	OK(daos_acl_to_stream(stream, acl, false));
	fclose(stream);
	CHECK(strcmp(buf, "A::OWNER@:rw\nA::ann@:rw\n") == 0);
	ace = daos_acl_get_next_ace(acl, NULL);
	out = dup(1);
	file = open("printed", O_CREAT | O_RDWR | O_TRUNC, 0600);
	CHECK(out >= 0 && dup2(file, 1) == 1);
	daos_acl_dump(acl);
	CHECK(strcmp(printed(buf, sizeof(buf)), "Allow::OWNER@:Read/Write\nAllow::ann@:Read/Write\n") == 0);
	daos_ace_dump(ace, 1);
	CHECK(strstr(printed(buf, sizeof(buf)), "\n\tAllow::OWNER@:Read/Write\n") != NULL);
	CHECK(dup2(out, 1) == 1);
	GIVES(daos_acl_to_stream(NULL, acl, false), -DER_INVAL);
	daos_acl_free(acl);
}

TESTS(TEST(lists_are_read_and_written_as_text), TEST(entries_are_walked_found_added_and_removed),
      TEST(entries_are_made_one_by_one), TEST(principals_are_users_and_groups), TEST(lists_are_printed))
