/* Random operations on names by two processes in turn, beside a model in memory, as the arguments say: DIR SEED STEPS KIND KIND.
 * A process is "taken" (it keeps the library that it was started with) or "plain". In the middle it says "ready" and waits for a line. What differs from the model ends it with the step. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#define LINE 1024
#define DIRS 3
#define NAMES 4
#define SUBS 2
#define NODES 64

/* What is asked of a process, and what it says: a number, and the error if that is -1. */

static char data[5000];

static int add(const char *path, int flags, long count) {
  int fd = open(path, flags, 0644);
  if (fd < 0) return -1;
  int done = write(fd, data, count) == count ? 0 : -2;
  return close(fd) == 0 ? done : -3;
}

static long list(const char *path, char *out) {
  char names[64][64];
  int count = 0;
  DIR *dir = opendir(path);
  if (!dir) return -1;
  struct dirent *entry;
  while (errno = 0, (entry = readdir(dir))) {
    struct stat st;
    if (entry->d_name[0] == '.') continue;
    if (entry->d_type == DT_UNKNOWN && fstatat(dirfd(dir), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0)
      entry->d_type = IFTODT(st.st_mode);
    char kind = entry->d_type == DT_REG ? 'f' : entry->d_type == DT_DIR ? 'd' : entry->d_type == DT_LNK ? 'l' : '?';
    snprintf(names[count++], 64, "%s:%c", entry->d_name, kind);
  }
  if (errno || closedir(dir) != 0) return -1;
  qsort(names, count, 64, (int (*)(const void *, const void *))strcmp);
  for (int i = 0; i < count; i++) out += sprintf(out, " %s", names[i]);
  return count;
}

static long told(int failed, const struct stat *st, char *out) {
  if (failed) return -1;
  char kind = S_ISREG(st->st_mode) ? 'f' : S_ISDIR(st->st_mode) ? 'd' : S_ISLNK(st->st_mode) ? 'l' : '?';
  sprintf(out, " %c %o %ld %ld %ld", kind, st->st_mode & 07777, (long)st->st_gid, kind == 'd' ? 0 : (long)st->st_nlink, kind == 'd' ? 0 : (long)st->st_size);
  return 0;
}

static long perform(const char *op, const char *a, const char *b, long n, char *out) {
  struct stat st;
  char text[64];
  long len;
  if (!strcmp(op, "create")) return add(a, O_CREAT | O_EXCL | O_WRONLY, n);
  if (!strcmp(op, "append")) return add(a, O_WRONLY | O_APPEND, n);
  if (!strcmp(op, "truncate")) return truncate(a, n);
  if (!strcmp(op, "unlink")) return n % 2 ? unlink(a) : unlinkat(AT_FDCWD, a, 0);
  if (!strcmp(op, "mkdir")) return n % 2 ? mkdir(a, 0755) : mkdirat(AT_FDCWD, a, 0755);
  if (!strcmp(op, "rmdir")) return n % 2 ? rmdir(a) : unlinkat(AT_FDCWD, a, AT_REMOVEDIR);
  if (!strcmp(op, "rename")) return n % 2 ? rename(a, b) : renameat(AT_FDCWD, a, AT_FDCWD, b);
  if (!strcmp(op, "keep")) return renameat2(AT_FDCWD, a, AT_FDCWD, b, RENAME_NOREPLACE);
  if (!strcmp(op, "link")) return n % 2 ? link(a, b) : linkat(AT_FDCWD, a, AT_FDCWD, b, 0);
  if (!strcmp(op, "symlink")) return n % 2 ? symlink("gone", a) : symlinkat("gone", AT_FDCWD, a);
  if (!strcmp(op, "readlink")) return n % 2 ? readlink(a, text, 64) : readlinkat(AT_FDCWD, a, text, 64);
  if (!strcmp(op, "chmod")) return n % 2 ? chmod(a, n) : fchmodat(AT_FDCWD, a, n, 0);
  if (!strcmp(op, "group")) return n % 2 ? chown(a, -1, n) : fchownat(AT_FDCWD, a, -1, n, 0);
  if (!strcmp(op, "access")) return n % 2 ? access(a, F_OK) : faccessat(AT_FDCWD, a, W_OK, 0);
  if (!strcmp(op, "stat")) return told(n % 2 ? stat(a, &st) : fstatat(AT_FDCWD, a, &st, 0), &st, out);
  if (!strcmp(op, "lstat")) return told(n % 2 ? lstat(a, &st) : fstatat(AT_FDCWD, a, &st, AT_SYMLINK_NOFOLLOW), &st, out);
  if (!strcmp(op, "list")) return list(a, out);
  if (!strcmp(op, "mark")) return sprintf(text, "%ld", n), setxattr(a, "user.mark", text, strlen(text), 0);
  if (!strcmp(op, "marked")) return (len = getxattr(a, "user.mark", text, 63)) < 0 ? -1 : (text[len] = 0, atol(text));
  return -9;
}

static int serve(const char *dir) {
  char line[LINE], op[32], a[128], b[128], out[LINE];
  long n;
  if (chdir(dir)) return 9;
  while (fgets(line, sizeof line, stdin) && sscanf(line, "%31s %127s %127s %ld", op, a, b, &n) == 4) {
    *out = 0;
    long done = perform(op, a, b, n, out);
    printf("%ld %s%s\n", done, done == -1 ? strerrorname_np(errno) : "-", out);
    fflush(stdout);
  }
  return 0;
}

/* The model. */

typedef struct {
  char kind;
  int mode, group, links, size, sub[SUBS];
  long mark;
} node;

static node nodes[NODES];
static int top[DIRS][NAMES];
static uint64_t state;
static long step;
static struct { FILE *to, *from; pid_t pid; } who[2];

static uint64_t below(uint64_t limit) {
  state ^= state << 13, state ^= state >> 7, state ^= state << 17;
  return state % limit;
}

typedef struct {
  int dir, name, sub;
  char text[64];
} place;

static place anywhere(int top_only) {
  place at = {below(DIRS), below(NAMES), top_only || below(3) ? -1 : (int)below(SUBS)};
  int len = snprintf(at.text, sizeof at.text, "%s/n%d", at.dir == 0 ? "." : at.dir == 1 ? "x" : "y", at.name);
  if (at.sub >= 0) snprintf(at.text + len, sizeof at.text - len, "/s%d", at.sub);
  return at;
}

/* Where the number of what is there is; NULL, with the error, if its directory is none. */
static int *slot(place at, const char **error) {
  int *outer = &top[at.dir][at.name];
  if (at.sub < 0) return outer;
  if (*outer >= 0 && nodes[*outer].kind == 'd') return &nodes[*outer].sub[at.sub];
  *error = *outer >= 0 && nodes[*outer].kind == 'f' ? "ENOTDIR" : "ENOENT";
  return NULL;
}

static int make(char kind, int mode, int size) {
  for (int i = 0; i < NODES; i++)
    if (!nodes[i].links) {
      nodes[i] = (node){kind, mode, getegid(), 1, size, {-1, -1}, -1};
      return i;
    }
  printf("no more nodes\n");
  exit(1);
}

static int is_empty(int i) {
  return nodes[i].sub[0] < 0 && nodes[i].sub[1] < 0;
}

static void ask(int by, const char *op, const char *a, const char *b, long n, const char *expected) {
  char line[LINE] = "";
  fprintf(who[by].to, "%s %s %s %ld\n", op, a, b, n);
  fflush(who[by].to);
  if (!fgets(line, sizeof line, who[by].from)) strcpy(line, "nothing");
  line[strcspn(line, "\n")] = 0;
  /* Only that it fails is known. */
  int is_it = strcmp(expected, "fails") ? !strcmp(line, expected) : !strncmp(line, "-1 ", 3);
  if (!is_it) {
    printf("step %ld, process %d: %s %s %s %ld: %s, and not %s\n", step, by, op, a, b, n, line, expected);
    exit(1);
  }
}

static const char *failed(const char *error) {
  static char text[64];
  snprintf(text, sizeof text, "-1 %s", error);
  return text;
}

/* What a process says of one place in all ways. */
static void look(int by, place at) {
  const char *error = "ENOENT";
  int *there = slot(at, &error);
  char text[128];
  long n = below(2);
  if (!there || *there < 0) {
    ask(by, "stat", at.text, "-", n, failed(error));
    ask(by, "lstat", at.text, "-", n, failed(error));
    ask(by, "access", at.text, "-", n, failed(error));
    return;
  }
  node *is = &nodes[*there];
  int is_dir = is->kind == 'd';
  snprintf(text, sizeof text, "0 - %c %o %d %d %d", is->kind, is->mode, is->group, is_dir ? 0 : is->links, is_dir ? 0 : is->size);
  ask(by, "lstat", at.text, "-", n, text);
  if (is->kind == 'l') {
    ask(by, "stat", at.text, "-", n, "-1 ENOENT");
    ask(by, "access", at.text, "-", n, "-1 ENOENT");
    ask(by, "readlink", at.text, "-", n, "4 -");
  } else {
    ask(by, "stat", at.text, "-", n, text);
    ask(by, "access", at.text, "-", n, "0 -");
    ask(by, "readlink", at.text, "-", n, "-1 EINVAL");
    snprintf(text, sizeof text, "%ld -", is->mark);
    ask(by, "marked", at.text, "-", n, is->mark < 0 ? "-1 ENODATA" : text);
  }
}

static void look_at_list(int by, place at) {
  const char *error = "ENOENT";
  char text[LINE] = "", *end = text;
  int *entries = top[at.dir], count = 0, most = NAMES;
  if (at.name >= 0) {
    int *there = slot(at, &error);
    if (!there || *there < 0 || nodes[*there].kind != 'd') {
      if (there && *there >= 0) error = nodes[*there].kind == 'f' ? "ENOTDIR" : "ENOENT";
      ask(by, "list", at.text, "-", 0, failed(error));
      return;
    }
    entries = nodes[*there].sub, most = SUBS;
  } else {
    strcpy(at.text, at.dir == 1 ? "x" : "y");
  }
  for (int i = 0; i < most; i++)
    if (entries[i] >= 0) end += sprintf(end, " %c%d:%c", most == NAMES ? 'n' : 's', i, nodes[entries[i]].kind), count++;
  char all[LINE + 32];
  snprintf(all, sizeof all, "%d -%s", count, text);
  ask(by, "list", at.text, "-", 0, all);
}

static void rename_one(int by, place a, place b, int keeps) {
  const char *error = "ENOENT", *op = keeps ? "keep" : "rename";
  long n = below(2);
  int *from = slot(a, &error), *to = slot(b, &error);
  if (!from || !to || *from < 0) return ask(by, op, a.text, b.text, n, "fails");
  int is_dir = nodes[*from].kind == 'd', is_same_place = from == to;
  int is_inside = b.sub >= 0 && b.dir == a.dir && b.name == a.name && a.sub < 0;
  int is_around = a.sub >= 0 && b.dir == a.dir && b.name == a.name && b.sub < 0;
  if (is_inside || is_around || (keeps && is_same_place)) return ask(by, op, a.text, b.text, n, "fails");
  if (keeps && *to >= 0) return ask(by, op, a.text, b.text, n, "-1 EEXIST");
  if (is_same_place || *from == *to) return ask(by, op, a.text, b.text, n, "0 -");
  if (*to >= 0) {
    int onto_dir = nodes[*to].kind == 'd';
    if (is_dir && !onto_dir) return ask(by, op, a.text, b.text, n, "-1 ENOTDIR");
    if (!is_dir && onto_dir) return ask(by, op, a.text, b.text, n, "-1 EISDIR");
    if (onto_dir && !is_empty(*to)) return ask(by, op, a.text, b.text, n, "-1 ENOTEMPTY");
  }
  ask(by, op, a.text, b.text, n, "0 -");
  if (*to >= 0) nodes[*to].links--;
  *to = *from, *from = -1;
}

static void change(int by, place a, place b) {
  const char *error = "ENOENT";
  int *there = slot(a, &error), *other = slot(b, &error), kind = below(17), size = 1 + below(4000);
  int is = there ? *there : -1;
  error = "ENOENT", slot(a, &error);
  const char *missing = failed(error);
  char of = is < 0 ? 0 : nodes[is].kind;
  switch (kind) {
  case 0 ... 2:
    ask(by, "create", a.text, "-", size, !there ? missing : of ? "-1 EEXIST" : "0 -");
    if (there && !of) *there = make('f', 0644, size);
    break;
  case 3:
    ask(by, "append", a.text, "-", size, !of ? missing : of == 'd' ? "-1 EISDIR" : of == 'l' ? "-1 ENOENT" : "0 -");
    if (of == 'f') nodes[is].size += size;
    break;
  case 4:
    ask(by, "truncate", a.text, "-", size, !of ? missing : of == 'd' ? "-1 EISDIR" : of == 'l' ? "-1 ENOENT" : "0 -");
    if (of == 'f') nodes[is].size = size;
    break;
  case 5 ... 6:
    ask(by, "unlink", a.text, "-", size, !of ? missing : of == 'd' ? "-1 EISDIR" : "0 -");
    if (of && of != 'd') nodes[is].links--, *there = -1;
    break;
  case 7 ... 8:
    /* No directories in directories in directories. */
    if (a.sub >= 0) break;
    ask(by, "mkdir", a.text, "-", size, of ? "-1 EEXIST" : "0 -");
    if (!of) *there = make('d', 0755, 0);
    break;
  case 9:
    ask(by, "rmdir", a.text, "-", size, !of ? missing : of != 'd' ? "-1 ENOTDIR" : is_empty(is) ? "0 -" : "-1 ENOTEMPTY");
    if (of == 'd' && is_empty(is)) nodes[is].links--, *there = -1;
    break;
  case 10 ... 11:
    if (b.sub < 0 || of != 'd') rename_one(by, a, b, below(3) == 0);
    break;
  case 12:
    if (of == 'l' || (!there && !other)) break;
    if (!of || !other) ask(by, "link", a.text, b.text, size, "fails");
    else if (of == 'd') ask(by, "link", a.text, b.text, size, *other >= 0 ? "fails" : "-1 EPERM");
    else ask(by, "link", a.text, b.text, size, *other >= 0 ? "-1 EEXIST" : "0 -");
    if (of == 'f' && other && *other < 0) nodes[is].links++, *other = is;
    break;
  case 13:
    ask(by, "symlink", a.text, "-", size, !there ? missing : of ? "-1 EEXIST" : "0 -");
    if (there && !of) *there = make('l', 0777, 4);
    break;
  case 14:
    size = 0600 | below(0100);
    ask(by, "chmod", a.text, "-", size, !of ? missing : of == 'l' ? "-1 ENOENT" : "0 -");
    if (of && of != 'l') nodes[is].mode = size;
    break;
  case 15:
    /* Root gives it to any group. */
    size = geteuid() ? getegid() : 1 + below(100);
    ask(by, "group", a.text, "-", size, !of ? missing : of == 'l' ? "-1 ENOENT" : "0 -");
    if (of && of != 'l') nodes[is].group = size;
    break;
  default:
    ask(by, "mark", a.text, "-", size, !of ? missing : of == 'l' ? "-1 ENOENT" : "0 -");
    if (of && of != 'l') nodes[is].mark = size;
  }
}

static void begin(int by, const char *self, const char *dir, const char *kind) {
  int to[2], from[2];
  if (pipe2(to, O_CLOEXEC) || pipe2(from, O_CLOEXEC)) exit(8);
  if ((who[by].pid = fork()) == 0) {
    dup2(to[0], 0), dup2(from[1], 1);
    if (!strcmp(kind, "plain")) unsetenv("LD_PRELOAD");
    char *words[] = {(char *)self, (char *)dir, NULL};
    execv(self, words);
    _exit(7);
  }
  close(to[0]), close(from[1]);
  who[by].to = fdopen(to[1], "w"), who[by].from = fdopen(from[0], "r");
}

int main(int argc, char **argv) {
  if (argc == 2) return serve(argv[1]);
  if (argc != 6) return 9;
  state = 0x9E3779B97F4A7C15u * (strtoull(argv[2], NULL, 10) + 1);
  long steps = atol(argv[3]);
  memset(top, -1, sizeof top);
  for (int by = 0; by < 2; by++) begin(by, argv[0], argv[1], argv[4 + by]);
  ask(0, "mkdir", "x", "-", 0, "0 -");
  ask(1, "mkdir", "y", "-", 0, "0 -");
  for (step = 0; step < steps; step++) {
    if (step == steps / 2) {
      char line[16];
      printf("ready\n");
      fflush(stdout);
      if (!fgets(line, sizeof line, stdin)) return 5;
    }
    int by = below(2), top_only = below(2);
    place a = anywhere(top_only), b = anywhere(top_only), c = anywhere(0);
    change(by, a, b);
    look(!by, a), look(!by, b), look(by, a), look(by, c);
    if (step % 4 == 0) look_at_list(below(2), c);
    if (step % 4 == 2) c.name = -1, c.dir = 1 + below(2), look_at_list(below(2), c);
  }
  for (int by = 0; by < 2; by++) {
    int status;
    fclose(who[by].to);
    if (waitpid(who[by].pid, &status, 0) != who[by].pid || status) return 6;
  }
  printf("done\n");
  return 0;
}
