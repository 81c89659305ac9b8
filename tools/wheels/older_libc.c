/* What programs compiled on this machine ask of the C library and what glibc 2.28 has under other names.

   Each name gets the prefix `popart.` in all files of a wheel (older_systems.py), and is defined here by what every glibc
   since 2.17 has. Nothing here is compiled into the library itself: only wheels hold it. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <stddef.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#if defined(__x86_64__)
#define BASE "GLIBC_2.2.5"
#define JUMP_TO(name) "jmp " name "@PLT"
#elif defined(__aarch64__)
#define BASE "GLIBC_2.17"
#define JUMP_TO(name) "b " name
#else
#error "older_libc.c: the oldest version of the C library of this architecture is not known"
#endif

/* A function whose version of glibc's first release does the same. */
#define SAME_AS(name, version)                                                                          \
  __asm__(".symver older_" #name ", " #name "@" version "\n\t.text\n\t.globl \"popart." #name           \
          "\"\n\t.type \"popart." #name "\", %function\n\"popart." #name "\":\n\t" JUMP_TO("older_" #name))
#define DEFINES(name) __asm__("popart." #name)

#if defined(__x86_64__)
SAME_AS(dlinfo, "GLIBC_2.3.3");
SAME_AS(pthread_setaffinity_np, "GLIBC_2.3.4");
SAME_AS(pthread_getaffinity_np, "GLIBC_2.3.4");
#else
SAME_AS(dlinfo, BASE);
SAME_AS(pthread_setaffinity_np, BASE);
SAME_AS(pthread_getaffinity_np, BASE);
#endif

/* 2.34 moved libpthread and libdl into libc. */
SAME_AS(dladdr, BASE);
SAME_AS(dlclose, BASE);
SAME_AS(dlerror, BASE);
SAME_AS(dlopen, BASE);
SAME_AS(dlsym, BASE);
SAME_AS(pthread_create, BASE);
SAME_AS(pthread_detach, BASE);
SAME_AS(pthread_join, BASE);
SAME_AS(pthread_once, BASE);
SAME_AS(pthread_rwlock_destroy, BASE);
SAME_AS(pthread_rwlock_init, BASE);
SAME_AS(pthread_rwlock_rdlock, BASE);
SAME_AS(pthread_rwlock_unlock, BASE);
SAME_AS(pthread_rwlock_wrlock, BASE);

/* 2.29 left out the error handling of System V: results are the same. */
SAME_AS(exp, BASE);
SAME_AS(log, BASE);
SAME_AS(pow, BASE);

/* 2.32: whether the process has one thread; false makes counters of references atomic. */
extern char libc_single_threaded DEFINES(__libc_single_threaded);
char libc_single_threaded = 0;

/* 2.33 made functions of what were macros. The structure is that of the kernel. */
int older_fstatat(int folder, const char *path, struct stat *result, int flags) DEFINES(fstatat);
int older_fstatat(int folder, const char *path, struct stat *result, int flags) {
  return (int)syscall(SYS_newfstatat, folder, path, result, flags);
}
int older_stat(const char *path, struct stat *result) DEFINES(stat);
int older_stat(const char *path, struct stat *result) { return older_fstatat(AT_FDCWD, path, result, 0); }
int older_lstat(const char *path, struct stat *result) DEFINES(lstat);
int older_lstat(const char *path, struct stat *result) {
  return older_fstatat(AT_FDCWD, path, result, AT_SYMLINK_NOFOLLOW);
}
int older_fstat(int file, struct stat *result) DEFINES(fstat);
int older_fstat(int file, struct stat *result) { return (int)syscall(SYS_fstat, file, result); }

/* 2.30: waits for a time of a clock; here for as long on the clock of the condition, which is the real time. */
int older_clockwait(pthread_cond_t *condition, pthread_mutex_t *mutex, clockid_t clock,
                    const struct timespec *until) DEFINES(pthread_cond_clockwait);
int older_clockwait(pthread_cond_t *condition, pthread_mutex_t *mutex, clockid_t clock,
                    const struct timespec *until) {
  struct timespec now, end;
  if (until->tv_nsec < 0 || until->tv_nsec >= 1000000000) return EINVAL;
  if (clock == CLOCK_REALTIME) return pthread_cond_timedwait(condition, mutex, until);
  for (;;) {
    if (clock_gettime(clock, &now) || clock_gettime(CLOCK_REALTIME, &end)) return EINVAL;
    long long left = (until->tv_sec - now.tv_sec) * 1000000000LL + (until->tv_nsec - now.tv_nsec);
    if (left <= 0) return ETIMEDOUT;
    left += end.tv_nsec;
    end.tv_sec += left / 1000000000;
    end.tv_nsec = left % 1000000000;
    const int result = pthread_cond_timedwait(condition, mutex, &end);
    if (result != ETIMEDOUT) return result; /* else the real time may have been set forward: look again */
  }
}

/* 2.34: runs the constructors of a program itself; before, the program gave a function that does. */
typedef int Main(int, char **, char **);
typedef void Constructor(int, char **, char **);
extern int start_of_libc(Main *, int, char **, Constructor *, void (*)(void), void (*)(void), void *);
__asm__(".symver start_of_libc, __libc_start_main@" BASE);

static int constructors_of_program(struct dl_phdr_info *program, size_t size, void *data) {
  const ElfW(Dyn) *entry = NULL;
  const void **arguments = data;
  ElfW(Addr) first = 0, initial = 0;
  size_t bytes = 0;
  (void)size;
  for (int i = 0; i < program->dlpi_phnum; i++)
    if (program->dlpi_phdr[i].p_type == PT_DYNAMIC)
      entry = (const ElfW(Dyn) *)(program->dlpi_addr + program->dlpi_phdr[i].p_vaddr);
  for (; entry && entry->d_tag != DT_NULL; entry++) {
    if (entry->d_tag == DT_INIT) initial = program->dlpi_addr + entry->d_un.d_ptr;
    if (entry->d_tag == DT_INIT_ARRAY) first = program->dlpi_addr + entry->d_un.d_ptr;
    if (entry->d_tag == DT_INIT_ARRAYSZ) bytes = entry->d_un.d_val;
  }
  const int count = *(const int *)arguments[0];
  char **words = (char **)arguments[1], **environment = (char **)arguments[2];
  if (initial) ((Constructor *)initial)(count, words, environment);
  for (size_t i = 0; i < bytes / sizeof(Constructor *); i++) ((Constructor **)first)[i](count, words, environment);
  return 1; /* the program is the first that is listed */
}

static void run_constructors(int count, char **words, char **environment) {
  const void *arguments[] = {&count, words, environment};
  dl_iterate_phdr(constructors_of_program, arguments);
}

int older_start(Main *program, int count, char **words, Constructor *, void (*)(void), void (*)(void),
                void *) DEFINES(__libc_start_main);
int older_start(Main *program, int count, char **words, Constructor *initialise, void (*finish)(void),
                void (*finish_linker)(void), void *stack) {
  return start_of_libc(program, count, words, initialise ? initialise : run_constructors, finish, finish_linker, stack);
}
