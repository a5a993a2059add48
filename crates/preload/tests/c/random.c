/* Random operations on one file beside a model in memory, as its arguments say: DIR MODEL SEED STEPS [all].
 * The file is DIR/f. What must be in it at the beginning is in MODEL, if that is there, and what is in it at the end is left there.
 * With the last word it also does what a library before the kernel leaves to it, from then on for that file.
 * In the middle it says "ready" and waits for a line. What differs from the model ends it with the step that has seen it. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

/* Longer than two chunks. */
#define FILE_BYTES 2300000
#define STEP_BYTES 100000

static unsigned char model[FILE_BYTES + STEP_BYTES], data[STEP_BYTES], found[STEP_BYTES + 1];
static size_t size;
static uint64_t state;
static long step, kinds = 36;
static char path[4096], other[4096];
/* To write anywhere, and to append. */
static int file = -1, appended = -1;

static uint64_t below(uint64_t limit) {
  state ^= state << 13, state ^= state >> 7, state ^= state << 17;
  return state % limit;
}

static void fail(const char *what) {
  printf("step %ld: %s: %s\n", step, what, strerror(errno));
  exit(1);
}

#define MUST(condition) \
  do { \
    if (!(condition)) fail(#condition); \
  } while (0)

static void open_all(void) {
  MUST((file = open(path, O_RDWR | O_CREAT, 0644)) >= 0);
  MUST((appended = open(path, O_RDWR | O_APPEND)) >= 0);
}

static void close_all(void) {
  MUST(close(file) == 0 && close(appended) == 0);
}

static void put(size_t at, size_t len) {
  memcpy(model + at, data, len);
  if (at + len > size) size = at + len;
}

static void cut(size_t len) {
  if (len < size) memset(model + len, 0, size - len);
  size = len;
}

static void zero(size_t at, size_t len) {
  if (at < size) memset(model + at, 0, at + len < size ? len : size - at);
}

/* What `count` bytes that were read at `at` must be, where `len` were asked for. */
static void compare(size_t at, size_t len, ssize_t count) {
  size_t there = at < size ? size - at : 0;
  MUST(count == (ssize_t)(there < len ? there : len));
  MUST(memcmp(found, model + at, count) == 0);
}

static void vectors(size_t at, size_t len, int writes) {
  unsigned char *bytes = writes ? data : found;
  struct iovec parts[3] = {{bytes, len / 3}, {bytes + len / 3, 0}, {bytes + len / 3, len - len / 3}};
  if (writes) {
    MUST(pwritev(file, parts, 3, at) == (ssize_t)len);
    put(at, len);
  } else {
    compare(at, len, preadv(file, parts, 3, at));
  }
}

/* `twin` is the same open file, which has one position. */
static void position(int twin, size_t at, size_t len) {
  MUST(lseek(twin, at, SEEK_SET) == (off_t)at);
  MUST(write(file, data, len) == (ssize_t)len);
  put(at, len);
  MUST(lseek(twin, 0, SEEK_CUR) == (off_t)(at + len));
  MUST(lseek(file, -(off_t)len, SEEK_CUR) == (off_t)at);
  compare(at, len, read(twin, found, len));
}

static void doubled(size_t at, size_t len) {
  int twin = dup(file);
  MUST(twin >= 0);
  position(twin, at, len);
  MUST(close(twin) == 0);
}

static void allocate(size_t at, size_t len) {
  switch (below(4)) {
  case 0:
    MUST(fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, at, len) == 0);
    zero(at, len);
    break;
  case 1:
    MUST(fallocate(file, FALLOC_FL_ZERO_RANGE, at, len) == 0);
    zero(at, len);
    if (at + len > size) size = at + len;
    break;
  case 2:
    MUST(fallocate(file, FALLOC_FL_KEEP_SIZE, at, len) == 0);
    break;
  default:
    MUST(posix_fallocate(file, at, len) == 0);
    if (at + len > size) size = at + len;
  }
}

static void map(size_t at, size_t len) {
  if (at >= size) return;
  if (at + len > size) len = size - at;
  unsigned char *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  MUST(memory != MAP_FAILED);
  MUST(memcmp(memory + at, model + at, len) == 0);
  memcpy(memory + at, data, len);
  MUST(msync(memory, size, MS_SYNC) == 0);
  MUST(munmap(memory, size) == 0);
  put(at, len);
}

static void seek(size_t at) {
  off_t next = lseek(file, at, SEEK_DATA);
  if (next < 0) {
    MUST(errno == ENXIO);
    next = size;
  }
  MUST(next >= (off_t)at || at >= size);
  for (size_t hole = at; hole < (size_t)next && hole < size; hole++) MUST(model[hole] == 0);
  off_t hole = lseek(file, at, SEEK_HOLE);
  MUST(at < size ? hole >= (off_t)at && hole <= (off_t)size : hole < 0 && errno == ENXIO);
}

static void told(void) {
  struct stat by_number, by_name;
  MUST(fstat(below(2) ? file : appended, &by_number) == 0 && stat(path, &by_name) == 0);
  MUST(by_number.st_size == (off_t)size && by_name.st_size == (off_t)size);
  MUST(by_number.st_ino == by_name.st_ino && by_name.st_nlink == 1);
}

static void names(void) {
  if (below(2)) {
    MUST(rename(path, other) == 0);
    MUST(access(path, F_OK) < 0 && errno == ENOENT);
    MUST(rename(other, path) == 0);
  } else {
    MUST(link(path, other) == 0 && unlink(path) == 0);
    MUST(rename(other, path) == 0);
  }
}

static void by_child(size_t at, size_t len) {
  pid_t child = fork();
  MUST(child >= 0);
  if (child == 0) _exit(pwrite(file, data, len, at) == (ssize_t)len ? 0 : 1);
  int status;
  MUST(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
  put(at, len);
}

static void copy(size_t at, size_t len) {
  char name[] = "/tmp/dolmen-random-XXXXXX";
  int to = mkstemp(name);
  MUST(to >= 0 && unlink(name) == 0);
  off_t from = at;
  ssize_t count = 0, more;
  while (count < (ssize_t)len && (more = sendfile(to, file, &from, len - count)) > 0) count += more;
  MUST(pread(to, found, len, 0) == count);
  compare(at, len, count);
  MUST(close(to) == 0);
}

static void one(void) {
  size_t at = below(FILE_BYTES - STEP_BYTES), len = 1 + below(STEP_BYTES);
  for (size_t i = 0; i < len; i += 8) {
    uint64_t word = below(UINT64_MAX);
    memcpy(data + i, &word, len - i < 8 ? len - i : 8);
  }
  switch (below(kinds)) {
  case 0 ... 7:
    MUST(pwrite(file, data, len, at) == (ssize_t)len);
    put(at, len);
    break;
  case 8 ... 13: compare(at, len, pread(below(2) ? file : appended, found, len, at)); break;
  case 14 ... 16:
    if (size + len > FILE_BYTES) break;
    MUST(write(appended, data, len) == (ssize_t)len);
    put(size, len);
    break;
  case 17 ... 20: vectors(at, len, below(2)); break;
  case 21 ... 23: position(file, at, len); break;
  case 24 ... 26:
    MUST(ftruncate(file, at) == 0);
    cut(at);
    break;
  case 27 ... 29: told(); break;
  case 30: MUST(fsync(file) == 0 && fdatasync(appended) == 0); break;
  case 31 ... 35: close_all(), open_all(); break;
  /* From here on what is left to the kernel. */
  case 36: doubled(at, len); break;
  case 37: map(at, len); break;
  case 38: seek(at); break;
  case 39: names(); break;
  case 40: by_child(at, len); break;
  case 41: copy(at, len); break;
  case 42: allocate(at, len); break;
  default:
    MUST(truncate(path, at) == 0);
    cut(at);
  }
}

static void keep_model(const char *name, int writes) {
  int kept = open(name, writes ? O_WRONLY | O_CREAT | O_TRUNC : O_RDONLY, 0644);
  if (kept < 0 && !writes) return;
  MUST(kept >= 0);
  ssize_t count = writes ? write(kept, model, size) : read(kept, model, sizeof model);
  MUST(count >= 0 && (!writes || count == (ssize_t)size));
  size = count;
  MUST(close(kept) == 0);
}

int main(int argc, char **argv) {
  char line[16];
  MUST(argc >= 5);
  if (argc > 5) kinds = 44;
  snprintf(path, sizeof path, "%s/f", argv[1]);
  snprintf(other, sizeof other, "%s/other", argv[1]);
  state = 0x9E3779B97F4A7C15u * (strtoull(argv[3], NULL, 10) + 1);
  long steps = atol(argv[4]);
  keep_model(argv[2], 0);
  open_all();
  for (step = 0; step < steps; step++) {
    if (step == steps / 2) {
      printf("ready\n");
      fflush(stdout);
      MUST(fgets(line, sizeof line, stdin) != NULL);
    }
    one();
  }
  for (size_t at = 0; at < size; at += STEP_BYTES) compare(at, STEP_BYTES, pread(file, found, STEP_BYTES, at));
  close_all();
  keep_model(argv[2], 1);
  printf("done\n");
  return 0;
}
