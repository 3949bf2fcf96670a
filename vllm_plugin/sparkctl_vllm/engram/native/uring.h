// io_uring by its system calls: reads handed to the kernel many at a time, and their ends. No liburing. One thread uses a ring.
#include <errno.h>
#include <linux/io_uring.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { ENTRIES = 512 };

typedef struct {
    int fd;
    unsigned entries, mask, cq_mask;
    _Atomic unsigned *head, *tail, *cq_head, *cq_tail;
    unsigned *array;
    struct io_uring_sqe *sqes;
    struct io_uring_cqe *cqes;
    void *shared;
    size_t shared_size, sqes_size;
} Uring;

static int uring_open(Uring *ring) {
    struct io_uring_params asked = {0};
    ring->fd = (int)syscall(SYS_io_uring_setup, ENTRIES, &asked);
    if (ring->fd < 0) return -errno;
    if (!(asked.features & IORING_FEAT_SINGLE_MMAP)) return close(ring->fd), ring->fd = -1, -ENOSYS;
    size_t sq = asked.sq_off.array + asked.sq_entries * sizeof(unsigned);
    size_t cq = asked.cq_off.cqes + asked.cq_entries * sizeof(struct io_uring_cqe);
    ring->shared_size = sq > cq ? sq : cq;
    ring->sqes_size = asked.sq_entries * sizeof(struct io_uring_sqe);
    int how = MAP_SHARED | MAP_POPULATE, may = PROT_READ | PROT_WRITE;
    ring->shared = mmap(NULL, ring->shared_size, may, how, ring->fd, IORING_OFF_SQ_RING);
    ring->sqes = mmap(NULL, ring->sqes_size, may, how, ring->fd, IORING_OFF_SQES);
    if (ring->shared == MAP_FAILED || ring->sqes == MAP_FAILED) return close(ring->fd), ring->fd = -1, -ENOMEM;
    char *base = ring->shared;
    ring->entries = asked.sq_entries;
    ring->mask = *(unsigned *)(base + asked.sq_off.ring_mask);
    ring->cq_mask = *(unsigned *)(base + asked.cq_off.ring_mask);
    ring->head = (_Atomic unsigned *)(base + asked.sq_off.head);
    ring->tail = (_Atomic unsigned *)(base + asked.sq_off.tail);
    ring->cq_head = (_Atomic unsigned *)(base + asked.cq_off.head);
    ring->cq_tail = (_Atomic unsigned *)(base + asked.cq_off.tail);
    ring->array = (unsigned *)(base + asked.sq_off.array);
    ring->cqes = (struct io_uring_cqe *)(base + asked.cq_off.cqes);
    return 0;
}

static void uring_close(Uring *ring) {
    if (ring->fd < 0) return;
    munmap(ring->sqes, ring->sqes_size), munmap(ring->shared, ring->shared_size);
    close(ring->fd);
}

// Puts a read into the ring, which must have a place for it; `mark` comes back with its end.
static void uring_push(Uring *ring, int fd, void *into, uint32_t length, int64_t offset, uint64_t mark) {
    unsigned tail = atomic_load(ring->tail), at = tail & ring->mask;
    struct io_uring_sqe *entry = &ring->sqes[at];
    memset(entry, 0, sizeof *entry);
    entry->opcode = IORING_OP_READ, entry->fd = fd;
    entry->addr = (uint64_t)(uintptr_t)into, entry->len = length, entry->off = (uint64_t)offset, entry->user_data = mark;
    ring->array[at] = at;
    atomic_store(ring->tail, tail + 1);
}

// Hands `fresh` reads to the kernel and waits for at least `least` ends.
static int uring_enter(Uring *ring, unsigned fresh, unsigned least) {
    while (fresh || least) {
        long took = syscall(SYS_io_uring_enter, ring->fd, fresh, least, least ? IORING_ENTER_GETEVENTS : 0, NULL, 0);
        if (took < 0 && errno == EINTR) continue;
        if (took < 0) return -errno;
        fresh -= (unsigned)took, least = 0;
    }
    return 0;
}

// Takes one end out of the ring: 1, its mark and what came (or a negative errno), 0 when there is none.
static int uring_pop(Uring *ring, uint64_t *mark, int64_t *got) {
    unsigned head = atomic_load(ring->cq_head);
    if (head == atomic_load(ring->cq_tail)) return 0;
    const struct io_uring_cqe *entry = &ring->cqes[head & ring->cq_mask];
    *mark = entry->user_data, *got = entry->res;
    atomic_store(ring->cq_head, head + 1);
    return 1;
}
