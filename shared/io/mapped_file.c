/* Files as memory. The system ends a process (SIGBUS) that reads a mapped page which the file no
 * longer has. The handler looks the address up among the files that are mapped, to say which it
 * was; every other SIGBUS does what it does without it. A slot's `begin` is written last and
 * cleared first, so the handler sees whole slots. */
#include "shared/io/mapped_file.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { MOST_FILES = 64 };

static struct slot {
    atomic_bool taken;
    _Atomic(char *) begin; /* NULL: not mapped */
    size_t size;
    const char *name;
} slots[MOST_FILES];

static void say(const char *text)
{
    ssize_t done = write(STDERR_FILENO, text, strlen(text));

    (void)done;
}

static struct slot *slot_of(const void *at)
{
    for (int i = 0; i < MOST_FILES; i++) {
        const char *begin = atomic_load(&slots[i].begin);
        if (begin && (uintptr_t)at - (uintptr_t)begin < slots[i].size)
            return &slots[i];
    }
    return NULL;
}

static void on_bus_error(int signal_number, siginfo_t *info, void *context)
{
    const struct slot *s = slot_of(info->si_addr);

    (void)context;
    if (!s) {
        signal(signal_number, SIG_DFL); /* what failed is done again, and ends the process */
        return;
    }
    say("lapwing: ");
    say(s->name);
    say(": became shorter while it was read; run again once nothing writes to it\n");
    _exit(1);
}

static void watch(void)
{
    struct sigaction now, mine = {.sa_sigaction = on_bus_error, .sa_flags = SA_SIGINFO};

    if (sigaction(SIGBUS, NULL, &now) == 0 && !(now.sa_flags & SA_SIGINFO) &&
        now.sa_handler == SIG_DFL)
        sigaction(SIGBUS, &mine, NULL);
}

static struct slot *take_slot(void)
{
    for (int i = 0; i < MOST_FILES; i++)
        if (!atomic_exchange(&slots[i].taken, true))
            return &slots[i];
    return NULL;
}

static void give_slot(struct slot *s)
{
    atomic_store(&s->begin, NULL);
    atomic_store(&s->taken, false);
}

/* Room for the padding first: a file whose last page is full has none after it. */
static char *map(int fd, size_t len, size_t size)
{
    char *room = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (room == MAP_FAILED)
        return NULL;
    if (mmap(room, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, fd, 0) != MAP_FAILED)
        return room;
    munmap(room, size);
    return NULL;
}

char *lw_map_file(int fd, const char *name, size_t len, size_t pad)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), size = (len + pad + page - 1) / page * page;
    struct slot *s = len > 0 && size > len ? take_slot() : NULL;

    if (!s)
        return NULL;
    char *text = map(fd, len, size);
    if (!text) {
        give_slot(s);
        return NULL;
    }
    s->size = size;
    s->name = name;
    atomic_store(&s->begin, text);
    watch();
    return text;
}

void lw_unmap_file(char *text)
{
    struct slot *s = text ? slot_of(text) : NULL;

    if (!s)
        return;
    size_t size = s->size;
    give_slot(s);
    munmap(text, size);
}
