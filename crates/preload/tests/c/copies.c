/* Contents copied from one open file to another, and lists of access by descriptor: what is printed must be the same with the
   library and without. The directory to work in is the first argument, one on another file system the second. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <termios.h>
#include <unistd.h>
static int line;
#define SAY(call) do { errno = 0; long r_ = (long)(call); int e_ = r_ == -1 ? errno : 0; \
    printf("%d %s = %ld%s%s\n", ++line, #call, r_, e_ ? " " : "", e_ ? strerrorname_np(e_) : ""); fflush(stdout); } while (0)
#define AT(fd) SAY(lseek(fd, 0, SEEK_CUR))
enum { LONG = 20 << 20 };
static char big[LONG], seen[LONG];
static const char ACL[] = "system.posix_acl_access", DEFAULT[] = "system.posix_acl_default";
static off_t off(off_t at) { return at; }
/* All that there is, whatever one call copies. */
static long all(int by, int from, off_t *at, int to, off_t *there) {
    long sum = 0, n;
    while ((n = by == 's' ? sendfile(to, from, at, LONG) : copy_file_range(from, at, to, there, LONG, 0)) > 0) sum += n;
    return n < 0 ? -1 : sum;
}
static void shows(int fd, int len) {
    memset(seen, '.', 64);
    long n = pread(fd, seen, len, 0);
    for (int i = 0; i < n; i++) if (!seen[i]) seen[i] = '0';
    printf("%ld: %.*s\n", n, (int)(n < 0 ? 0 : n), seen);
}
static int list(char *to, const uint32_t (*entries)[3], int count) {
    uint32_t version = 2;
    memcpy(to, &version, 4);
    for (int i = 0; i < count; i++) {
        uint16_t both[2] = {entries[i][0], entries[i][1]};
        memcpy(to + 4 + 8 * i, both, 4), memcpy(to + 8 + 8 * i, &entries[i][2], 4);
    }
    return 4 + 8 * count;
}
static void mode(int fd) { struct stat st; fstat(fd, &st); printf("mode %o\n", st.st_mode); }
static void names(int fd) {
    char room[256]; long n = flistxattr(fd, room, sizeof room);
    printf("%ld:", n);
    for (char *at = room; at < room + n; at += strlen(at) + 1) printf(" %s", at);
    printf("\n");
}
static void clones(int from, int to, int reads, int writes, int ends, int far, int dir) {
    SAY(ioctl(to, FICLONE, from)); SAY(ioctl(to, FICLONE, to)); SAY(ioctl(reads, FICLONE, from)); SAY(ioctl(to, FICLONE, writes));
    SAY(ioctl(ends, FICLONE, from)); SAY(ioctl(to, FICLONE, far)); SAY(ioctl(far, FICLONE, from)); SAY(ioctl(to, FICLONE, -1));
    SAY(ioctl(to, FICLONE, dir)); SAY(ioctl(to, FICLONE, 999));
    struct file_clone_range range = {from, 0, 4096, 0};
    SAY(ioctl(to, FICLONERANGE, &range)); SAY(ioctl(far, FICLONERANGE, &range)); SAY(ioctl(reads, FICLONERANGE, &range)); SAY(ioctl(to, FICLONERANGE, 0));
    range.src_fd = far; SAY(ioctl(to, FICLONERANGE, &range)); range.src_fd = -1; SAY(ioctl(to, FICLONERANGE, &range));
    struct { struct file_dedupe_range same; struct file_dedupe_range_info info[200]; } asked = {{0, 4096, 1}, {{to}}};
    SAY(ioctl(from, FIDEDUPERANGE, &asked)); SAY(ioctl(writes, FIDEDUPERANGE, &asked)); SAY(ioctl(from, FIDEDUPERANGE, 0));
    asked.same.reserved1 = 1; SAY(ioctl(from, FIDEDUPERANGE, &asked)); asked.same.reserved1 = 0;
    asked.same.dest_count = 200; SAY(ioctl(from, FIDEDUPERANGE, &asked));
    struct termios told; SAY(ioctl(from, TCGETS, &told));
    SAY(fcntl(to, F_GETFL) & O_ACCMODE); shows(to, 10);
}
static void ranges(int from, int to, int reads, int writes, int ends, int far, int dir) {
    off_t at = 1, there = 3;
    SAY(lseek(from, 2, SEEK_SET)); SAY(copy_file_range(from, 0, to, 0, 4, 0)); AT(from); AT(to); shows(to, 20);
    SAY(copy_file_range(from, &at, to, 0, 3, 0)); SAY(at); AT(from); AT(to); shows(to, 20);
    SAY(copy_file_range(from, 0, to, &there, 2, 0)); SAY(there); AT(from); AT(to); shows(to, 20);
    SAY(copy_file_range(from, &at, to, &there, 100, 0)); SAY(at); SAY(there); SAY(copy_file_range(from, &at, to, &there, 100, 0)); shows(to, 20);
    at = 50; SAY(copy_file_range(from, &at, to, 0, 5, 0)); SAY(at); at = 0; SAY(copy_file_range(from, &at, to, 0, 0, 0));
    there = 30; SAY(copy_file_range(from, &at, to, &there, 5, 0)); shows(to, 40);
    SAY(copy_file_range(from, 0, to, 0, 5, 1)); SAY(copy_file_range(from, 0, ends, 0, 5, 0)); SAY(copy_file_range(writes, 0, to, 0, 5, 0));
    SAY(copy_file_range(from, 0, reads, 0, 5, 0)); SAY(copy_file_range(from, 0, dir, 0, 5, 0)); SAY(copy_file_range(dir, 0, to, 0, 5, 0));
    SAY(copy_file_range(from, 0, 999, 0, 5, 0)); SAY(copy_file_range(-1, 0, to, 0, 5, 0)); SAY(copy_file_range(from, 0, far, 0, 5, 0));
    SAY(copy_file_range(far, 0, to, 0, 5, 0)); SAY(copy_file_range(far, 0, reads, 0, 5, 0));
    at = -1; SAY(copy_file_range(from, &at, to, 0, 5, 0)); at = 0; there = -1; SAY(copy_file_range(from, &at, to, &there, 5, 0));
    at = 0; there = 2; SAY(copy_file_range(to, &at, to, &there, 5, 0)); there = 5; SAY(copy_file_range(to, &at, to, &there, 5, 0)); shows(to, 40);
    there = 2; SAY(copy_file_range(to, &at, to, &there, -1, 0)); at = off(INT64_MAX); SAY(copy_file_range(from, &at, to, 0, 5, 0));
    int twice = dup(to); at = 0; there = 20; SAY(copy_file_range(twice, &at, to, &there, 4, 0)); SAY(close(twice)); shows(to, 40);
}
static void sends(int from, int to, int reads, int writes, int ends, int far, int dir) {
    off_t at = 1;
    SAY(lseek(from, 2, SEEK_SET)); SAY(lseek(to, 0, SEEK_SET)); SAY(sendfile(to, from, 0, 4)); AT(from); AT(to); shows(to, 20);
    SAY(sendfile(to, from, &at, 3)); SAY(at); AT(from); AT(to); SAY(sendfile(to, from, &at, 100)); SAY(at); SAY(sendfile(to, from, &at, 100)); shows(to, 40);
    SAY(sendfile(ends, from, 0, 5)); SAY(sendfile(to, writes, 0, 5)); SAY(sendfile(reads, from, 0, 5)); SAY(sendfile(999, from, 0, 5)); SAY(sendfile(to, -1, 0, 5));
    at = -1; SAY(sendfile(to, from, &at, 5)); at = 0; SAY(sendfile(to, from, &at, 0));
    SAY(lseek(far, 1, SEEK_SET)); SAY(sendfile(to, far, 0, 3)); AT(far); AT(to); at = 0; SAY(sendfile(to, far, &at, 3)); SAY(at); AT(far); shows(to, 60);
    SAY(lseek(from, 4, SEEK_SET)); SAY(sendfile(far, from, 0, 4)); AT(far); AT(from); shows(far, 20);
}
static void lists(const char *name, int fd) {
    char room[256], found[256];
    const uint32_t few[][3] = {{1, 6, -1}, {4, 4, -1}, {32, 0, -1}}, more[][3] = {{1, 7, -1}, {2, 6, 12345}, {4, 5, -1}, {16, 4, -1}, {32, 1, -1}};
    SAY(fgetxattr(fd, ACL, found, 132)); SAY(fsetxattr(fd, ACL, room, list(room, few, 3), 0)); mode(fd); SAY(fgetxattr(fd, ACL, found, 132)); names(fd);
    SAY(fsetxattr(fd, ACL, room, list(room, more, 5), 0)); mode(fd); SAY(fgetxattr(fd, ACL, 0, 0)); SAY(fgetxattr(fd, ACL, found, 5)); names(fd);
    SAY(fgetxattr(fd, ACL, found, 132)); SAY(memcmp(found, room, 44)); SAY(getxattr(name, ACL, found, 132)); SAY(memcmp(found, room, 44));
    SAY(fchmod(fd, 0620)); mode(fd); SAY(fgetxattr(fd, ACL, found, 132)); SAY(found[6]); SAY(found[30]); SAY(fsetxattr(fd, "user.a", "b", 1, 0)); names(fd);
    SAY(fremovexattr(fd, ACL)); mode(fd); SAY(fremovexattr(fd, ACL)); SAY(fgetxattr(fd, ACL, found, 132)); SAY(fremovexattr(fd, "user.a")); SAY(fremovexattr(fd, "user.a"));
    SAY(setxattr(name, ACL, room, list(room, more, 5), 0)); mode(fd); SAY(fsetxattr(fd, ACL, room, 4, 0)); mode(fd); names(fd);
}
int main(int argc, char **argv) {
    alarm(50);
    if (argc != 3 || chdir(argv[1])) return 9;
    char beside[4096]; snprintf(beside, sizeof beside, "%s/far", argv[2]);
    struct stat st; for (int i = 0; i < 40; i++) stat("none", &st);
    int from = open("from", O_CREAT | O_RDWR, 0644), to = open("to", O_CREAT | O_RDWR, 0644), reads = open("from", O_RDONLY), writes = open("to2", O_CREAT | O_WRONLY, 0644);
    int ends = open("ends", O_CREAT | O_WRONLY | O_APPEND, 0644), far = open(beside, O_CREAT | O_RDWR | O_TRUNC, 0644), dir = open(argv[2], O_RDONLY | O_DIRECTORY);
    SAY(write(from, "0123456789", 10)); SAY(write(far, "abcdefghij", 10)); SAY(lseek(far, 0, SEEK_SET));
    clones(from, to, reads, writes, ends, far, dir); ranges(from, to, reads, writes, ends, far, dir); sends(from, to, reads, writes, ends, far, dir);
    lists("from", from);
    for (int i = 0; i < LONG; i++) big[i] = i * 7 + (i >> 12);
    int longer = open("longer", O_CREAT | O_RDWR, 0644), copy = open("copy", O_CREAT | O_RDWR, 0644); off_t at = 5, there = 1;
    SAY(pwrite(longer, big, LONG, 0)); SAY(all('c', longer, 0, copy, 0)); AT(longer); AT(copy); SAY(pread(copy, seen, LONG, 0)); SAY(memcmp(big, seen, LONG));
    SAY(all('c', longer, &at, copy, &there)); SAY(at); SAY(there); AT(copy); SAY(pread(copy, seen, LONG, 1)); SAY(memcmp(big + 5, seen, LONG - 5));
    SAY(ftruncate(copy, 0)); SAY(lseek(copy, 0, SEEK_SET)); at = 0; SAY(all('s', longer, &at, copy, 0)); SAY(at); AT(copy); SAY(pread(copy, seen, LONG, 0)); SAY(memcmp(big, seen, LONG));
    SAY(lseek(far, 0, SEEK_SET)); at = 0; SAY(all('s', longer, &at, far, 0)); AT(far); SAY(pread(far, seen, LONG, 0)); SAY(memcmp(big, seen, LONG));
    struct stat both[2]; SAY(fstat(longer, &both[0])); SAY(fstat(copy, &both[1])); SAY(both[0].st_size == both[1].st_size);
    printf("the kernel's from here\n"); fflush(stdout);
    /* What is refused for what it says, and what waits for the other end. */
    int pipes[2]; pipe(pipes); SAY(lseek(from, 0, SEEK_SET)); SAY(sendfile(pipes[1], from, 0, 4)); SAY(read(pipes[0], seen, 9)); AT(from);
    char room[64]; const uint32_t few[][3] = {{1, 6, -1}, {4, 4, -1}, {32, 0, -1}}, bad[][3] = {{4, 4, -1}, {1, 6, -1}};
    SAY(fsetxattr(writes, ACL, room, list(room, bad, 2), 0)); SAY(fsetxattr(copy, DEFAULT, room, list(room, few, 3), 0));
    SAY(copy_file_range(reads, 0, to, 0, 5, 0)); AT(reads);
    return 0;
}
