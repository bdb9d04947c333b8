/* Counts the file events of a process below one folder, and injects a fault at one.
 *
 * Preloaded before the C library. Nothing is counted until `injector_arm` is called. An event is a
 * call that changes what is below the folder, makes it durable, or (on request) reads it; each is
 * written to a log, one line: number, kind, path, other path, separated by tabs. A write to the
 * standard output is logged as `say` and is no event.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum action { NOTHING, KILL_BEFORE, KILL_AFTER, KILL_HALFWAY, FAIL, SIGNAL };
enum verdict { GO, FAILED, HALF, LAST };
enum { FULL = 1, READ_ONLY = 2, ONCE = 4 };  /* which later calls fail too */

static char root[PATH_MAX];
static size_t root_length;
static atomic_int armed;
static atomic_long count;
static long chosen;
static int action, number, span, log_file = -1, reads;

#define REAL(name) \
    static __typeof__(name) *real; \
    if (!real) real = (__typeof__(name) *)dlsym(RTLD_NEXT, #name)

void injector_arm(const char *folder, int log, int with_reads, long at, int what, int value, int lasts)
{
    strncpy(root, folder, sizeof root - 1);
    root_length = strlen(root);
    log_file = log;
    reads = with_reads;
    chosen = at;
    action = what;
    number = value;
    span = lasts;
    count = 0;
    armed = 1;
}

void injector_disarm(void) { armed = 0; }

static int below(const char *path)
{
    return !strncmp(path, root, root_length) && (path[root_length] == '/' || !path[root_length]);
}

static void note(long event, const char *kind, const char *path, const char *other)
{
    char line[3 * PATH_MAX];
    int length = snprintf(line, sizeof line, "%ld\t%s\t%s\t%s\n", event, kind, path, other ? other : "");
    if (log_file >= 0) syscall(SYS_write, log_file, line, (size_t)length);
}

/* True for the kinds of event that a disk without space refuses. */
static int grows(const char *kind)
{
    return !strcmp(kind, "create") || !strcmp(kind, "write") || !strcmp(kind, "mkdir") ||
           !strcmp(kind, "link") || !strcmp(kind, "symlink");
}

static int fails(const char *kind, long event)
{
    if (action != FAIL || !chosen || event < chosen) return 0;
    if (event == chosen) return 1;
    if (span == FULL) return grows(kind);
    return span == READ_ONLY && strcmp(kind, "close") && strcmp(kind, "read");
}

static enum verdict meet(const char *kind, const char *path, const char *other)
{
    int kept = errno;
    long event = atomic_fetch_add(&count, 1) + 1;
    note(event, kind, path, other);
    if (fails(kind, event)) {
        errno = number;
        return FAILED;
    }
    errno = kept;
    if (event != chosen) return GO;
    if (action == KILL_BEFORE) kill(getpid(), SIGKILL);
    if (action == SIGNAL) kill(getpid(), number);
    if (action == KILL_AFTER) return LAST;
    if (action == KILL_HALFWAY) return HALF;
    return GO;
}

static void end(enum verdict said)
{
    if (said == LAST || said == HALF) kill(getpid(), SIGKILL);
}

/* The absolute path of a name relative to a folder's descriptor; 0 unless it is below the root. */
static int place(int folder, const char *name, char *path)
{
    if (!armed || !name) return 0;
    if (name[0] == '/') {
        snprintf(path, PATH_MAX, "%s", name);
    } else {
        char link[64];
        if (folder == AT_FDCWD) snprintf(link, sizeof link, "/proc/self/cwd");
        else snprintf(link, sizeof link, "/proc/self/fd/%d", folder);
        long length = syscall(SYS_readlink, link, path, (size_t)PATH_MAX / 2);
        if (length < 0) return 0;
        snprintf(path + length, PATH_MAX - (size_t)length, "/%s", name);
    }
    return below(path);
}

static int opened(int descriptor, char *path)
{
    char link[64];
    int kept = errno;
    if (!armed || descriptor < 0 || descriptor == log_file) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    long length = syscall(SYS_readlink, link, path, (size_t)PATH_MAX - 1);
    errno = kept;
    if (length <= 0) return 0;
    path[length] = 0;
    return below(path);
}

static int there(int folder, const char *name)
{
    struct stat found;
    int kept = errno;
    int missing = fstatat(folder, name, &found, AT_SYMLINK_NOFOLLOW);
    errno = kept;
    return !missing;
}

static const char *kind_of_open(int folder, const char *name, int flags)
{
    if ((flags & O_CREAT) && !there(folder, name)) return "create";
    if ((flags & O_ACCMODE) == O_RDONLY) return NULL;
    return (flags & O_TRUNC) ? "empty" : "open";
}

#define OPENING(folder, name, flags, call) \
    char path[PATH_MAX]; \
    const char *kind = place(folder, name, path) ? kind_of_open(folder, name, flags) : NULL; \
    if (!kind) return call; \
    enum verdict said = meet(kind, path, NULL); \
    if (said == FAILED) return -1; \
    int made = call; \
    end(said); \
    return made

#define MODE \
    mode_t mode = 0; \
    if (flags & (O_CREAT | O_TMPFILE)) { \
        va_list rest; \
        va_start(rest, flags); \
        mode = va_arg(rest, mode_t); \
        va_end(rest); \
    }

int open(const char *name, int flags, ...) { MODE REAL(open); OPENING(AT_FDCWD, name, flags, real(name, flags, mode)); }
int open64(const char *name, int flags, ...) { MODE REAL(open64); OPENING(AT_FDCWD, name, flags, real(name, flags, mode)); }
int openat(int at, const char *name, int flags, ...) { MODE REAL(openat); OPENING(at, name, flags, real(at, name, flags, mode)); }
int openat64(int at, const char *name, int flags, ...) { MODE REAL(openat64); OPENING(at, name, flags, real(at, name, flags, mode)); }
int creat(const char *name, mode_t mode) { return open(name, O_CREAT | O_WRONLY | O_TRUNC, mode); }

static int flags_of(const char *mode)
{
    if (mode[0] == 'w') return O_CREAT | O_WRONLY | O_TRUNC;
    if (mode[0] == 'a') return O_CREAT | O_WRONLY | O_APPEND;
    return strchr(mode, '+') ? O_RDWR : O_RDONLY;
}

#define STREAM(call) \
    char path[PATH_MAX]; \
    const char *kind = place(AT_FDCWD, name, path) ? kind_of_open(AT_FDCWD, name, flags_of(mode)) : NULL; \
    if (!kind) return call; \
    enum verdict said = meet(kind, path, NULL); \
    if (said == FAILED) return NULL; \
    FILE *made = call; \
    end(said); \
    return made

FILE *fopen(const char *name, const char *mode) { REAL(fopen); STREAM(real(name, mode)); }
FILE *fopen64(const char *name, const char *mode) { REAL(fopen64); STREAM(real(name, mode)); }

/* One write of `size` bytes; a half is written before the process is killed, or the disk is full. */
#define WRITING(descriptor, size, whole, half) \
    char path[PATH_MAX]; \
    if (armed && descriptor == STDOUT_FILENO) note(atomic_load(&count), "say", "", NULL); \
    if (!opened(descriptor, path)) return whole; \
    enum verdict said = meet("write", path, NULL); \
    if (said == FAILED && number == ENOSPC && size > 1) { ssize_t part = half; errno = number; return part; } \
    if (said == FAILED) return -1; \
    ssize_t made = said == HALF ? half : whole; \
    end(said); \
    return made

ssize_t write(int to, const void *from, size_t size) { REAL(write); WRITING(to, size, real(to, from, size), real(to, from, size / 2)); }
ssize_t pwrite(int to, const void *from, size_t size, off_t at) { REAL(pwrite); WRITING(to, size, real(to, from, size, at), real(to, from, size / 2, at)); }
ssize_t pwrite64(int to, const void *from, size_t size, off64_t at) { REAL(pwrite64); WRITING(to, size, real(to, from, size, at), real(to, from, size / 2, at)); }
ssize_t writev(int to, const struct iovec *from, int size) { REAL(writev); WRITING(to, size, real(to, from, size), real(to, from, size / 2)); }
ssize_t sendfile(int to, int from, off_t *at, size_t size) { REAL(sendfile); WRITING(to, size, real(to, from, at, size), real(to, from, at, size / 2)); }
ssize_t sendfile64(int to, int from, off64_t *at, size_t size) { REAL(sendfile64); WRITING(to, size, real(to, from, at, size), real(to, from, at, size / 2)); }
ssize_t copy_file_range(int from, off64_t *at, int to, off64_t *there, size_t size, unsigned flags) { REAL(copy_file_range); WRITING(to, size, real(from, at, to, there, size, flags), real(from, at, to, there, size / 2, flags)); }

#define READING(descriptor, call) \
    char path[PATH_MAX]; \
    if (!reads || !opened(descriptor, path)) return call; \
    if (meet("read", path, NULL) == FAILED) return -1; \
    return call

ssize_t read(int from, void *to, size_t size) { REAL(read); READING(from, real(from, to, size)); }
ssize_t pread(int from, void *to, size_t size, off_t at) { REAL(pread); READING(from, real(from, to, size, at)); }
ssize_t pread64(int from, void *to, size_t size, off64_t at) { REAL(pread64); READING(from, real(from, to, size, at)); }

/* A call on a descriptor, or on a name, that changes something. */
#define ON(kind, known, other, call) \
    char path[PATH_MAX]; \
    if (!(known)) return call; \
    enum verdict said = meet(kind, path, other); \
    if (said == FAILED) return -1; \
    int made = call; \
    end(said); \
    return made

int fsync(int of) { REAL(fsync); ON("fsync", opened(of, path), NULL, real(of)); }
int fdatasync(int of) { REAL(fdatasync); ON("fsync", opened(of, path), NULL, real(of)); }
int ftruncate(int of, off_t size) { REAL(ftruncate); ON("truncate", opened(of, path), NULL, real(of, size)); }
int ftruncate64(int of, off64_t size) { REAL(ftruncate64); ON("truncate", opened(of, path), NULL, real(of, size)); }
int truncate(const char *name, off_t size) { REAL(truncate); ON("truncate", place(AT_FDCWD, name, path), NULL, real(name, size)); }

/* Making an existing name or removing a missing one is no event. */
#define IF_THERE(wanted, at) place(at, name, path) && there(at, name) == wanted

int unlink(const char *name) { REAL(unlink); ON("unlink", IF_THERE(1, AT_FDCWD), NULL, real(name)); }
int unlinkat(int at, const char *name, int flags) { REAL(unlinkat); ON(flags & AT_REMOVEDIR ? "rmdir" : "unlink", IF_THERE(1, at), NULL, real(at, name, flags)); }
int rmdir(const char *name) { REAL(rmdir); ON("rmdir", IF_THERE(1, AT_FDCWD), NULL, real(name)); }
int mkdir(const char *name, mode_t mode) { REAL(mkdir); ON("mkdir", IF_THERE(0, AT_FDCWD), NULL, real(name, mode)); }
int mkdirat(int at, const char *name, mode_t mode) { REAL(mkdirat); ON("mkdir", IF_THERE(0, at), NULL, real(at, name, mode)); }

#define MOVING(kind, at, from, there, to, call) \
    char other[PATH_MAX]; \
    int known = place(there, to, other); \
    ON(kind, place(at, from, path) || known, other, call)

int rename(const char *from, const char *to) { REAL(rename); MOVING("rename", AT_FDCWD, from, AT_FDCWD, to, real(from, to)); }
int renameat(int at, const char *from, int there, const char *to) { REAL(renameat); MOVING("rename", at, from, there, to, real(at, from, there, to)); }
int renameat2(int at, const char *from, int there, const char *to, unsigned flags) { REAL(renameat2); MOVING("rename", at, from, there, to, real(at, from, there, to, flags)); }
int link(const char *from, const char *to) { REAL(link); MOVING("link", AT_FDCWD, from, AT_FDCWD, to, real(from, to)); }
int linkat(int at, const char *from, int there, const char *to, int flags) { REAL(linkat); MOVING("link", at, from, there, to, real(at, from, there, to, flags)); }
int symlink(const char *from, const char *to) { REAL(symlink); MOVING("symlink", AT_FDCWD, from, AT_FDCWD, to, real(from, to)); }

static int writable(int descriptor, char *path)
{
    int kept = errno;
    int flags = armed && descriptor > 2 ? fcntl(descriptor, F_GETFL) : -1;
    errno = kept;
    return flags != -1 && (flags & O_ACCMODE) != O_RDONLY && opened(descriptor, path);
}

int close(int descriptor)
{
    REAL(close);
    char path[PATH_MAX];
    if (!writable(descriptor, path)) return real(descriptor);
    enum verdict said = meet("close", path, NULL);
    int made = real(descriptor);  /* it is closed even on failure */
    if (said == FAILED) {
        errno = number;
        return -1;
    }
    end(said);
    return made;
}
