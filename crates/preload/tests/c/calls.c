/* Calls on files, each with its result and error: what is printed must be the same with the library and without.
   The directory to work in is the only argument; links to it have its name in them, so names of one length are compared. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>
#include <dirent.h>
#include <sys/stat.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <sys/uio.h>
#include <sys/statvfs.h>
#include <sys/file.h>
#include <sys/sendfile.h>
#include <poll.h>
#include <spawn.h>
extern char **environ;
static int line;
#define SAY(call) do { errno = 0; long r_ = (long)(call); int e_ = r_ == -1 ? errno : 0; \
    printf("%d %s = %ld%s%s\n", ++line, #call, r_, e_ ? " " : "", e_ ? strerrorname_np(e_) : ""); } while (0)
static char buf[1 << 17];
static void told(const char *what, int fd) {
    printf("%s: %s %d\n", what, fd < 0 ? strerrorname_np(errno) : "open", fd);
}
static void stat_of(const char *path) {
    struct stat st; memset(&st, 0, sizeof st);
    int r = stat(path, &st);
    printf("stat %s = %d %s: mode %o links %lu uid %u gid %u size %ld blocks %ld blksize %ld\n", path, r, r ? strerrorname_np(errno) : "",
        st.st_mode, (long)st.st_nlink, st.st_uid, st.st_gid, (long)(S_ISDIR(st.st_mode) ? 0 : st.st_size), (long)st.st_blocks, (long)st.st_blksize);
    struct statx sx; memset(&sx, 0, sizeof sx);
    r = statx(AT_FDCWD, path, AT_SYMLINK_NOFOLLOW, STATX_BASIC_STATS, &sx);
    printf("statx %s = %d: mode %o size %ld same %d\n", path, r, sx.stx_mode, (long)(S_ISDIR(sx.stx_mode) ? 0 : sx.stx_size), sx.stx_ino == st.st_ino);
}
int main(int argc, char **argv) {
    setvbuf(stdout, 0, _IOLBF, 0);
    alarm(50);
    if (argc != 2 || chdir(argv[1])) return 9;
    mkdir("d", 0755); symlink("d", "ld"); symlink("d/f", "lf"); symlink("nowhere", "dangling");
    symlink(argv[1], "self");
    for (int i = 0; i < 40; i++) { struct stat st; stat("d/none", &st); }
    int fd = open("d/f", O_CREAT | O_RDWR | O_EXCL, 0640); told("create", fd);
    told("again", open("d/f", O_CREAT | O_RDWR | O_EXCL, 0640));
    told("missing", open("d/g", O_RDONLY)); told("slash", open("d/f/", O_RDONLY)); told("below", open("d/f/x", O_RDONLY));
    told("dir", open("d", O_WRONLY)); told("nofollow", open("lf", O_RDONLY | O_NOFOLLOW)); told("loop", open("dangling", O_RDONLY));
    SAY(write(fd, "hello world", 11)); SAY(lseek(fd, 0, SEEK_CUR)); SAY(lseek(fd, -5, SEEK_END)); SAY(read(fd, buf, 100)); printf("%.5s\n", buf);
    SAY(pread(fd, buf, 4, 1)); printf("%.4s\n", buf); SAY(pwrite(fd, "J", 1, 0)); SAY(pread(fd, buf, 11, 0)); printf("%.11s\n", buf);
    SAY(lseek(fd, -1, SEEK_SET)); SAY(lseek(fd, 0, 99)); SAY(pread(fd, buf, 4, -1)); SAY(pread(fd, buf, 4, 100));
    struct iovec v[3] = {{buf, 2}, {buf + 10, 3}, {buf + 20, 100}};
    SAY(lseek(fd, 0, SEEK_SET)); SAY(readv(fd, v, 3)); printf("%.2s %.3s %.6s\n", buf, buf + 10, buf + 20);
    v[2].iov_len = 6; SAY(writev(fd, v, 3)); SAY(lseek(fd, 0, SEEK_END)); SAY(readv(fd, v, -1));
    stat_of("d/f"); stat_of("lf"); stat_of("ld"); stat_of("d"); stat_of("d/none"); stat_of("self/d/f"); stat_of("d/../ld/f"); stat_of("dangling");
    SAY(ftruncate(fd, 5)); stat_of("d/f"); SAY(ftruncate(fd, 100000)); stat_of("d/f"); SAY(ftruncate(fd, -1));
    SAY(lseek(fd, 10, SEEK_DATA)); SAY(lseek(fd, 10, SEEK_HOLE)); SAY(lseek(fd, 200000, SEEK_HOLE));
    SAY(access("d/f", R_OK | W_OK)); SAY(access("d/f", X_OK)); SAY(access("d/none", F_OK)); SAY(access("lf", F_OK)); SAY(access("d/f", 77));
    SAY(fcntl(fd, F_GETFL)); SAY(fcntl(fd, F_GETFD)); SAY(fcntl(fd, F_SETFD, FD_CLOEXEC)); SAY(fcntl(fd, F_GETFD)); SAY(fsync(fd)); SAY(fdatasync(fd)); SAY(isatty(fd));
    int two = dup(fd); told("dup", two); SAY(lseek(fd, 3, SEEK_SET)); SAY(lseek(two, 0, SEEK_CUR)); SAY(dup2(fd, 77)); SAY(lseek(77, 2, SEEK_CUR)); SAY(lseek(fd, 0, SEEK_CUR));
    SAY(dup3(fd, fd, 0)); SAY(dup2(fd, fd)); SAY(fcntl(fd, F_DUPFD, 50)); SAY(close(77)); SAY(close(77)); SAY(close(50));
    SAY(fcntl(two, F_SETFL, O_APPEND)); SAY(fcntl(fd, F_GETFL)); SAY(write(fd, "end", 3)); SAY(lseek(two, 0, SEEK_CUR)); SAY(fcntl(two, F_SETFL, 0));
    SAY(openat(fd, "x", O_RDONLY)); SAY(fchdir(fd)); SAY(close(two));
    /* what needs the kernel's file */
    SAY(lseek(fd, 7, SEEK_SET)); SAY(pwrite(fd, "0123456789", 10, 0));
    struct pollfd p = {fd, POLLIN | POLLOUT, 0}; SAY(poll(&p, 1, 0)); SAY(p.revents);
    SAY(lseek(fd, 0, SEEK_CUR));
    fd = open("d/f", O_RDWR); told("reopen", fd);
    char *m = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0); SAY(m == MAP_FAILED);
    if (m != MAP_FAILED) { printf("%.10s\n", m); m[0] = 'M'; SAY(msync(m, 4096, MS_SYNC)); }
    SAY(pread(fd, buf, 3, 0)); printf("%.3s\n", buf); SAY(close(fd));
    /* removal while it is open */
    fd = open("d/gone", O_CREAT | O_RDWR, 0600); SAY(write(fd, "still", 5)); SAY(unlink("d/gone")); SAY(pread(fd, buf, 10, 0)); printf("%.5s\n", buf);
    struct stat st; SAY(fstat(fd, &st)); SAY(st.st_nlink); SAY(st.st_size); SAY(close(fd));
    /* another name while it is open */
    fd = open("d/old", O_CREAT | O_RDWR, 0600); SAY(write(fd, "old", 3)); SAY(rename("d/old", "d/new")); SAY(write(fd, "new", 3)); SAY(close(fd)); stat_of("d/new"); stat_of("d/old");
    /* streams */
    fd = open("d/s", O_CREAT | O_RDWR, 0644); SAY(write(fd, "line one\n", 9));
    FILE *f = fopen("d/s", "r"); SAY(f != 0); SAY(fgets(buf, 100, f) != 0); printf("%s", buf); fclose(f);
    f = fdopen(fd, "a+"); SAY(fprintf(f, "line two\n")); SAY(fflush(f)); stat_of("d/s"); fclose(f); stat_of("d/s");
    /* other processes */
    fd = open("d/p", O_CREAT | O_RDWR, 0644); SAY(write(fd, "parent ", 7));
    int pid = fork();
    if (!pid) { write(fd, "child ", 6); int o = open("d/p2", O_CREAT | O_WRONLY, 0644); write(o, "x", 1); _exit(0); }
    waitpid(pid, 0, 0); SAY(write(fd, "again", 5)); SAY(pread(fd, buf, 100, 0)); printf("%.18s\n", buf); SAY(close(fd)); stat_of("d/p2");
    fd = open("d/e", O_CREAT | O_RDWR, 0644); SAY(write(fd, "before ", 7));
    pid = fork(); if (!pid) { dup2(fd, 1); execlp("echo", "echo", "echoed", (char *)0); _exit(1); }
    waitpid(pid, 0, 0); SAY(pread(fd, buf, 100, 0)); printf("%.14s", buf); SAY(close(fd));
    fd = open("d/e2", O_CREAT | O_RDWR, 0644); SAY(write(fd, "spawn ", 6));
    posix_spawn_file_actions_t a; posix_spawn_file_actions_init(&a); posix_spawn_file_actions_adddup2(&a, fd, 1);
    char *words[] = {"echo", "spawned", 0}; SAY(posix_spawnp(&pid, "echo", &a, 0, words, environ)); waitpid(pid, 0, 0);
    SAY(pread(fd, buf, 100, 0)); printf("%.14s", buf); SAY(flock(fd, LOCK_EX)); SAY(close(fd));
    fd = open("d/c", O_CREAT | O_RDWR, 0644); SAY(write(fd, "copied", 6)); int to = open("d/c2", O_CREAT | O_RDWR, 0644);
    off_t at = 0; SAY(sendfile(to, fd, &at, 6)); SAY(pread(to, buf, 10, 0)); printf("%.6s\n", buf); SAY(close(fd)); SAY(close(to));
    umask(077); fd = open("d/masked", O_CREAT | O_WRONLY, 0666); SAY(close(fd)); stat_of("d/masked");
    fd = open("d/f", O_WRONLY | O_TRUNC); SAY(read(fd, buf, 1)); SAY(close(fd)); stat_of("d/f");
    fd = open("d/f", O_RDONLY); SAY(write(fd, "x", 1)); SAY(ftruncate(fd, 1)); SAY(close(fd)); SAY(read(fd, buf, 1)); SAY(fstat(fd, &st));
    int dir = open("d", O_RDONLY | O_DIRECTORY); fd = openat(dir, "f", O_RDWR); SAY(write(fd, "by dir", 6)); SAY(fstatat(dir, "f", &st, 0)); SAY(st.st_size); SAY(unlinkat(dir, "f", 0)); SAY(faccessat(dir, "f", F_OK, 0)); SAY(close(fd)); SAY(close(dir));
    fd = open("d/cr", O_CREAT | O_RDWR, 0444); SAY(write(fd, "x", 1)); char name[64]; sprintf(name, "/proc/self/fd/%d", fd); int third = open(name, O_RDONLY); SAY(third >= 0); SAY(read(third, buf, 9)); SAY(close(third)); SAY(close(fd));
    DIR *l = opendir("d"); int n = 0; while (readdir(l)) n++; closedir(l); SAY(n);
    SAY(close_range(3, 1000, 0)); fd = open("d/after", O_CREAT | O_RDWR, 0600); SAY(write(fd, "x", 1)); SAY(close(fd));
    fflush(stdout);
    return 0;
}
