/* Streams of directories: what is printed must be the same with the library and without. The directory to work in is the only
   argument. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define MANY 700
#define SAY(call) do { errno = 0; long r_ = (long)(call); int e_ = r_ == -1 ? errno : 0; \
    printf("%s = %ld%s%s\n", #call, r_, e_ ? " " : "", e_ ? strerrorname_np(e_) : ""); } while (0)

static char buf[64];

/* Up to so many entries, in their order. */
static long tell(DIR *dir, long most, int prints) {
  struct dirent *entry;
  struct stat st;
  long count = 0;
  while (count < most && (errno = 0, entry = readdir(dir))) {
    count++;
    if (strcmp(entry->d_name, ".") && strcmp(entry->d_name, "..")) {
      int known = fstatat(AT_FDCWD, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0;
      if (prints) printf("%s %d %d %d;", entry->d_name, entry->d_type, known && st.st_ino == entry->d_ino, entry->d_reclen);
    } else if (prints) {
      printf("%s %d;", entry->d_name, entry->d_type);
    }
  }
  if (prints) printf("%d\n", errno);
  return count;
}

static DIR *opened(const char *path) {
  errno = 0;
  DIR *dir = opendir(path);
  printf("%s: %s\n", path, dir ? "open" : strerrorname_np(errno));
  return dir;
}

/* At the end of the process, when the variables of its thread are gone. */
static void last(void) {
  struct stat st;
  int fd = open("last", O_CREAT | O_EXCL | O_RDWR, 0600);
  SAY(fd >= 0); SAY(write(fd, "last", 4)); SAY(pread(fd, buf, 9, 1)); SAY(close(fd));
  SAY(stat("last", &st)); SAY(st.st_size); SAY(access("none", F_OK)); SAY(mkdir("ld", 0700)); SAY(rename("last", "ld/last")); SAY(chmod("ld/last", 0640));
  DIR *dir = opendir("ld");
  SAY(tell(dir, 9, 1)); SAY(closedir(dir)); SAY(unlink("ld/last")); SAY(rmdir("ld"));
}

int main(int argc, char **argv) {
  struct stat st, other;
  atexit(last);
  setvbuf(stdout, 0, _IOLBF, 0);
  alarm(60);
  if (argc != 2 || chdir(argv[1])) return 9;
  SAY(mkdir("m", 0755)); SAY(mkdir("e", 0755)); SAY(symlink("m", "l")); SAY(symlink("none", "d"));
  close(open("f", O_CREAT | O_WRONLY, 0644));
  for (int i = 0; i < 30; i++) stat("none", &st);
  opened("none"), opened("f"), opened("d"), opened(""), opened("f/x");
  DIR *dir = opened("e");
  SAY(tell(dir, 100, 1)); SAY(tell(dir, 100, 1)); SAY(closedir(dir));
  SAY(chdir("m"));
  for (int i = 0; i < MANY; i++) {
    sprintf(buf, "name-%d", i);
    if (i % 7 == 0) mkdir(buf, 0700); else if (i % 5 == 0) symlink("x", buf); else close(open(buf, O_CREAT | O_WRONLY, 0600));
  }
  dir = opened("../l");
  SAY(tell(dir, MANY + 10, 1)); SAY(readdir(dir) == 0);
  rewinddir(dir);
  SAY(tell(dir, 300, 0));
  long at = telldir(dir);
  SAY(tell(dir, 3, 1)); SAY(tell(dir, 200, 0));
  seekdir(dir, at); SAY(tell(dir, 3, 1));
  seekdir(dir, at); SAY(tell(dir, 1000, 0));
  rewinddir(dir);
  SAY(telldir(dir)); SAY(tell(dir, 1000, 0));
  /* What comes and goes after a listing began is seen by the next one. */
  unlink("name-1"); close(open("one", O_CREAT | O_WRONLY, 0600));
  rewinddir(dir);
  SAY(tell(dir, 1000, 0));
  /* By its descriptor. */
  int fd = dirfd(dir);
  SAY(fstat(fd, &st)); SAY(stat(".", &other)); SAY(st.st_ino == other.st_ino && st.st_dev == other.st_dev); SAY(S_ISDIR(st.st_mode));
  SAY(fsync(fd)); SAY(openat(fd, "none", O_RDONLY)); SAY(fcntl(fd, F_GETFL) & (O_PATH | O_ACCMODE)); SAY(fcntl(fd, F_GETFD)); SAY(fchdir(fd));
  rewinddir(dir); SAY(tell(dir, 20, 1));
  /* A child goes on where its parent was. */
  fflush(stdout);
  pid_t child = fork();
  if (!child) {
    SAY(tell(dir, 5, 1)); SAY(tell(dir, 1000, 0)); rewinddir(dir); SAY(tell(dir, 1000, 0)); SAY(closedir(dir));
    fflush(stdout);
    _exit(0);
  }
  waitpid(child, 0, 0);
  SAY(tell(dir, 1000, 0)); SAY(closedir(dir)); SAY(fstat(fd, &st));
  fd = open(".", O_RDONLY | O_DIRECTORY);
  SAY((dir = fdopendir(fd)) != 0); SAY(dirfd(dir) == fd); SAY(tell(dir, 4, 1));
  struct dirent copy, *told;
  SAY(readdir_r(dir, &copy, &told)); SAY(told == &copy); printf("%s\n", copy.d_name); SAY(closedir(dir)); SAY(close(fd));
  SAY(fdopendir(fd) != 0); fd = open("one", O_RDONLY); SAY(fdopendir(fd) != 0); SAY(close(fd)); fd = open(".", O_PATH); SAY(fdopendir(fd) != 0); SAY(close(fd));
  /* One that is removed while it is listed. */
  dir = opened("../e"); SAY(tell(dir, 1, 1)); SAY(rmdir("../e")); SAY(tell(dir, 10, 0)); SAY(closedir(dir)); opened("../e");
  /* Two that change places. */
  close(open("xf", O_CREAT | O_WRONLY, 0600)), mkdir("xd", 0700), stat("xf", &other);
  SAY(renameat2(AT_FDCWD, "xf", AT_FDCWD, "xd", RENAME_EXCHANGE)); SAY(stat("xd", &st)); SAY(st.st_ino == other.st_ino && S_ISREG(st.st_mode)); SAY(stat("xf", &st)); SAY(S_ISDIR(st.st_mode));
  SAY(renameat2(AT_FDCWD, "xf", AT_FDCWD, "none", RENAME_EXCHANGE)); SAY(renameat2(AT_FDCWD, "none", AT_FDCWD, "xf", RENAME_EXCHANGE)); SAY(renameat2(AT_FDCWD, "xd", AT_FDCWD, "xf", RENAME_EXCHANGE | RENAME_NOREPLACE));
  SAY(renameat2(AT_FDCWD, "xf", AT_FDCWD, "xf/in", RENAME_EXCHANGE)); SAY(renameat2(AT_FDCWD, "xd", AT_FDCWD, "xf/in", 0)); SAY(access("xf/in", F_OK)); SAY(rmdir("xf")); SAY(unlink("xf/in")); SAY(rmdir("xf"));
  struct dirent **all;
  int count = scandir(".", &all, 0, alphasort); SAY(count); for (int i = 0; i < 4; i++) printf("%s\n", all[i]->d_name);
  return 0;
}
