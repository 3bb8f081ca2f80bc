/* Nothing here allocates, locks or formats by stdio while a handler runs. backtrace() is called once at start, since its first call loads a library. */
#include "server/crash.h"

#include <assert.h>
#include <execinfo.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "server/log.h"
#include "server/thread.h"
#include "server/version.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED true
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED true
#endif
#endif
#ifndef SANITIZED
#define SANITIZED false
#endif

#define STACK_SIZE (64u << 10)
#define FRAMES_MAX 64
#define FRAMES_OF_HANDLER 2 /* the handler, and what the kernel puts below it */

static __thread const struct thread *self;
static const char *remove_this;
static char assertion[512];  /* what failed, if an assertion did */
static _Atomic int crashing; /* the thread that crashes first tells */
static const int fatal[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};

/* ---- text, without stdio ---- */

struct text {
    char p[1024];
    size_t size;
};

static void add(struct text *x, const char *s) {
    while (*s && x->size < sizeof x->p - 1) x->p[x->size++] = *s++;
}

static void add_number(struct text *x, uint64_t v, unsigned base) {
    char digits[24];
    size_t n = sizeof digits;
    digits[--n] = 0;
    do digits[--n] = "0123456789abcdef"[v % base];
    while (v /= base);
    add(x, digits + n);
}

static void add_signed(struct text *x, int v) {
    if (v < 0) add(x, "-");
    add_number(x, v < 0 ? 0u - (unsigned)v : (unsigned)v, 10);
}

static void put(int fd, const char *p, size_t n) {
    while (n) {
        ssize_t wrote = write(fd, p, n);
        if (wrote <= 0) return;
        p += wrote;
        n -= (size_t)wrote;
    }
}

/* To standard error and to the log, if they are two. */
static void tell(const struct text *x) {
    put(STDERR_FILENO, x->p, x->size);
    if (log_fd() != STDERR_FILENO) put(log_fd(), x->p, x->size);
}

static void tell_stack(void) {
    void *frames[FRAMES_MAX];
    int n = backtrace(frames, FRAMES_MAX), skip = n > FRAMES_OF_HANDLER ? FRAMES_OF_HANDLER : 0;
    backtrace_symbols_fd(frames + skip, n - skip, STDERR_FILENO);
    if (log_fd() != STDERR_FILENO) backtrace_symbols_fd(frames + skip, n - skip, log_fd());
}

static void add_command(struct text *x, const struct thread *t) {
    uint16_t row = atomic_load_explicit(&t->running, memory_order_relaxed);
    const struct command *command = row ? command_by_number(row) : NULL;
    if (command && command->parent) {
        add(x, command->parent->name);
        add(x, "|");
    }
    add(x, command ? command->name : "none");
}

/* As the kernel knows it; the main thread has the program's name. */
static void add_thread_name(struct text *x) {
    char name[16] = "";
    if (gettid() == getpid()) add(x, "main");
    else if (!prctl(PR_GET_NAME, name)) add(x, name);
}

static void add_whereabouts(struct text *x) {
    add(x, "thread: ");
    if (self) {
        add_number(x, self->id, 10);
        add(x, " of ");
        add_number(x, self->n_threads, 10);
        add(x, "\ncommand: ");
        add_command(x, self);
    } else add_thread_name(x);
    add(x, "\n");
}

/* What the other threads do; their number is bounded by the size of the text. */
static void add_others(struct text *x) {
    add(x, "other threads:");
    for (uint32_t i = 0; server.threads && i < server.n_threads; i++) {
        const struct thread *t = server.threads[i];
        if (!t || t == self) continue;
        add(x, " ");
        add_number(x, i, 10);
        add(x, "=");
        add_command(x, t);
    }
    add(x, "\n");
}

static const char *name_of(int sig) {
    switch (sig) {
    case SIGSEGV: return "SIGSEGV";
    case SIGBUS: return "SIGBUS";
    case SIGFPE: return "SIGFPE";
    case SIGILL: return "SIGILL";
    case SIGABRT: return "SIGABRT";
    default: return "?";
    }
}

/* ---- handlers ---- */

static void die(int sig, const siginfo_t *info) {
    signal(sig, SIG_DFL);
    /* A fault happens again on return, now with the default action and with the registers as they were; a signal that was sent is sent again. */
    if (info->si_code > 0 && sig != SIGABRT) return;
    syscall(SYS_tgkill, getpid(), gettid(), sig);
}

static void crashed(int sig, siginfo_t *info, void *context) {
    (void)context;
    int none = 0, me = (int)gettid();
    if (!atomic_compare_exchange_strong(&crashing, &none, me)) {
        if (none == me) { /* the report itself crashed */
            die(sig, info);
            return;
        }
        for (;;) pause(); /* another thread is telling, and ends the process */
    }
    log_crash_drain();
    struct text x = {.size = 0};
    add(&x, "\n=== DARTER CRASH REPORT: please send it with what led to it ===\nversion: darter ");
    add(&x, DARTER_VERSION);
    add(&x, "\npid: ");
    add_number(&x, (uint64_t)getpid(), 10);
    add(&x, "\nsignal: ");
    add_number(&x, (uint64_t)sig, 10);
    add(&x, " ");
    add(&x, name_of(sig));
    add(&x, ", code ");
    add_signed(&x, info->si_code);
    if (info->si_code > 0 && sig != SIGABRT) {
        add(&x, ", address 0x");
        add_number(&x, (uint64_t)(uintptr_t)info->si_addr, 16);
    } else {
        add(&x, ", address none (sent by pid ");
        add_signed(&x, info->si_pid);
        add(&x, ")");
    }
    add(&x, "\n");
    if (assertion[0]) {
        add(&x, "assertion: ");
        add(&x, assertion);
    }
    add_whereabouts(&x);
    tell(&x);
    x.size = 0;
    add_others(&x);
    add(&x, "backtrace (addr2line -f -e darter OFFSET names lines):\n");
    tell(&x);
    tell_stack();
    x.size = 0;
    add(&x, "=== END OF CRASH REPORT ===\n");
    tell(&x);
    if (remove_this) unlink(remove_this);
    die(sig, info);
}

static void show_stack(int sig) {
    (void)sig;
    struct text x = {.size = 0};
    add(&x, "--- the watchdog asks where it is ---\n");
    add_whereabouts(&x);
    tell(&x);
    tell_stack();
}

void crash_show_stack(pthread_t thread) { pthread_kill(thread, SIGALRM); }

/* assert() ends here instead of in the C library, so that its message reaches the log as well. */
#if !SANITIZED
void __assert_fail(const char *what, const char *file, unsigned int line, const char *function) {
    static _Atomic bool failed;
    if (!atomic_exchange(&failed, true)) {
        struct text x = {.size = 0};
        add(&x, file);
        add(&x, ":");
        add_number(&x, line, 10);
        add(&x, ": ");
        add(&x, function);
        add(&x, ": Assertion `");
        add(&x, what);
        add(&x, "' failed.\n");
        put(STDERR_FILENO, x.p, x.size);
        size_t n = x.size < sizeof assertion ? x.size : sizeof assertion - 1;
        memcpy(assertion, x.p, n);
    }
    abort();
}
#endif

/* ---- start ---- */

static void own_stack(void) {
    if (SANITIZED) return; /* they bring their own */
    void *p = mmap(NULL, STACK_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) return;
    stack_t s = {.ss_sp = p, .ss_size = STACK_SIZE};
    sigaltstack(&s, NULL);
}

void crash_start(bool report) {
    void *frame[1];
    backtrace(frame, 1);
    own_stack();
    struct sigaction a = {.sa_handler = show_stack, .sa_flags = SA_RESTART | SA_ONSTACK};
    sigemptyset(&a.sa_mask);
    sigaction(SIGALRM, &a, NULL);
    if (!report || SANITIZED) return;
    a = (struct sigaction){.sa_sigaction = crashed, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    sigemptyset(&a.sa_mask);
    for (size_t i = 0; i < sizeof fatal / sizeof *fatal; i++) sigaction(fatal[i], &a, NULL);
}

void crash_thread_start(const struct thread *t) {
    self = t;
    own_stack();
}

void crash_remove_file(const char *path) { remove_this = path; }
