// Lookups of Engram rows on the CPU, for one table of one rank: resident rows and rows of late are decoded at once, the others are read from
// one file by io_uring or by threads, and decoded when the caller waits. Called from reader.py; no library but libc. A row is 264 bytes:
// 256 codes e4m3fn and 8 scales e8m0. Errors are negative errno; nothing is ever filled in for a row that could not be read.
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/uio.h>
#include <time.h>

#include "row.h"
#include "uring.h"

enum { PAGE = 4096, MOST_PARTS = 2 };
enum { SPIN_NS = 100000, SPIN_ROW_NS = 20000, MOST_SPIN_NS = 2000000 };  // ours: an NVMe's time for one row, and for each of many
static const uint32_t NOBODY = 0xffffffffu;

typedef struct { int64_t base; int32_t length, at; } Part;  // stride and length of a part are the same

typedef struct {
    int fd, direct, parts, threads, stop;
    int raw;  // rows go out as they were read, one behind the other, and resident ones not at all: the GPU decodes both
    Part part[MOST_PARTS];
    Uring uring;  // fd < 0: threads read
    // What is under way: distinct ids, a buffer each, and which place wants which of them.
    uint32_t *ids;
    uint8_t *buffer;
    int32_t *wants, *wanted_by, *todo;
    int64_t room, distinct, wanting, given;
    int32_t *places;  // of the rows that went out raw
    pthread_mutex_t taking;  // guards next and jobs: a thread that wakes late must not take a job of a batch that has ended
    long next, jobs, queued, reaped;
    atomic_long done;
    atomic_int error;
    int broken;
    // Rows of late, by id: a place can be taken by one row only, the last.
    uint32_t late_mask, *late_id;
    uint8_t *late_row;
    // Distinct ids of a batch, open addressing.
    uint32_t seen_mask;
    int32_t *seen;
    pthread_t *thread;
    sem_t work;
    long counted[4];  // lookups: resident, of late, read, doubles of one that is read
} Reader;

static int64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000ll + now.tv_nsec;
}

static size_t room_of(const Reader *reader) { return reader->direct ? 2 * PAGE * (size_t)reader->parts : ROW; }

// Where a job reads: one part of one distinct row. With O_DIRECT the pages around it, of which `least` bytes must come: the file may end
// within its last page.
static void job_of(const Reader *reader, long job, int64_t *offset, int64_t *length, int64_t *least, uint8_t **into) {
    long row = reader->todo[job] / reader->parts, which = reader->todo[job] % reader->parts;
    const Part *part = &reader->part[which];
    *offset = part->base + (int64_t)reader->ids[row] * part->length;
    *length = *least = part->length;
    *into = reader->buffer + row * room_of(reader) + (reader->direct ? which * 2 * PAGE : part->at);
    if (reader->direct) {
        int64_t begin = *offset & ~(int64_t)(PAGE - 1), end = (*offset + *length + PAGE - 1) & ~(int64_t)(PAGE - 1);
        *least += *offset - begin, *offset = begin, *length = end - begin;
    }
}

static void finish(Reader *reader, int64_t least, int64_t got) {
    if (got < least) {
        int none = 0, why = got < 0 ? (int)-got : EIO;  // a read that ends early is a file that is too short
        atomic_compare_exchange_strong(&reader->error, &none, why);
    }
}

static void read_job(Reader *reader, long job) {
    int64_t offset, length, least;
    uint8_t *into;
    job_of(reader, job, &offset, &length, &least, &into);
    ssize_t got;
    do got = pread(reader->fd, into, (size_t)length, offset); while (got < 0 && errno == EINTR);
    finish(reader, least, got < 0 ? -errno : got);
    atomic_fetch_add(&reader->done, 1);
}

static int take_job(Reader *reader) {
    pthread_mutex_lock(&reader->taking);
    long job = reader->next < reader->jobs ? reader->next++ : -1;
    pthread_mutex_unlock(&reader->taking);
    if (job >= 0) read_job(reader, job);
    return job >= 0;
}

static void *serve(void *argument) {
    Reader *reader = argument;
    for (;;) {
        sem_wait(&reader->work);
        if (reader->stop) return NULL;
        while (take_job(reader)) {}
    }
}

// Hands jobs to the kernel as far as its ring takes them; the rest follows while waiting.
static int submit(Reader *reader, unsigned ends) {
    unsigned fresh = 0;
    for (; reader->queued < reader->jobs && reader->queued - reader->reaped < (long)reader->uring.entries; fresh++) {
        int64_t offset, length, least;
        uint8_t *into;
        job_of(reader, reader->queued++, &offset, &length, &least, &into);
        uring_push(&reader->uring, reader->fd, into, (uint32_t)length, offset, (uint64_t)least);
    }
    return uring_enter(&reader->uring, fresh, ends);
}

static void reap(Reader *reader) {
    uint64_t least;
    int64_t got;
    for (; uring_pop(&reader->uring, &least, &got); reader->reaped++) finish(reader, (int64_t)least, got);
}

// What the page cache holds comes at once; what is left is for the threads.
static long not_cached(Reader *reader, long jobs) {
    long left = 0;
    for (long job = 0; job < jobs; job++) {
        int64_t offset, length, least;
        uint8_t *into;
        job_of(reader, job, &offset, &length, &least, &into);
        struct iovec place = {into, (size_t)length};
        if (preadv2(reader->fd, &place, 1, offset, RWF_NOWAIT) != length) reader->todo[left++] = reader->todo[job];
    }
    return left;
}

static int start_reads(Reader *reader) {
    long jobs = reader->distinct * reader->parts;
    for (long job = 0; job < jobs; job++) reader->todo[job] = (int32_t)job;
    reader->queued = reader->reaped = 0;
    if (reader->uring.fd >= 0) {
        reader->jobs = jobs;
        return jobs ? submit(reader, 0) : 0;
    }
    if (!reader->direct) jobs = not_cached(reader, jobs);
    atomic_store(&reader->done, 0);
    pthread_mutex_lock(&reader->taking);
    reader->next = 0, reader->jobs = jobs;
    pthread_mutex_unlock(&reader->taking);
    for (long k = 0; k < jobs && k < reader->threads; k++) sem_post(&reader->work);
    return 0;
}

static uint32_t mixed(uint32_t id) { return (id * 2654435761u) ^ (id >> 15); }

static void give_up_room(Reader *reader) {
    free(reader->ids), free(reader->wants), free(reader->wanted_by), free(reader->todo), free(reader->seen);
    free(reader->places), free(reader->buffer);
    reader->ids = NULL, reader->wants = reader->wanted_by = reader->todo = reader->seen = reader->places = NULL, reader->buffer = NULL;
    reader->room = 0;
}

static int grow(Reader *reader, int64_t lookups) {
    if (lookups <= reader->room) return 0;
    int64_t room = 64;
    while (room < lookups) room *= 2;
    give_up_room(reader);
    reader->ids = malloc((size_t)room * 4), reader->wants = malloc((size_t)room * 4);
    reader->wanted_by = malloc((size_t)room * 4), reader->todo = malloc((size_t)room * 4 * MOST_PARTS);
    reader->places = malloc((size_t)room * 4);
    reader->seen = malloc((size_t)room * 8), reader->seen_mask = (uint32_t)(2 * room - 1);
    int none = posix_memalign((void **)&reader->buffer, PAGE, (size_t)room * room_of(reader));
    if (none) reader->buffer = NULL;
    if (none || !reader->ids || !reader->wants || !reader->wanted_by || !reader->todo || !reader->seen || !reader->places) return give_up_room(reader), -ENOMEM;
    reader->room = room;
    return 0;
}

static void give(Reader *reader, const uint8_t *row, int fp4, void *out, int64_t lookup) {
    if (!reader->raw) return decode(row, fp4, (uint16_t *)out + lookup * VALUES);
    reader->places[reader->given] = (int32_t)lookup;
    memcpy((uint8_t *)out + reader->given++ * ROW, row, ROW);
}

// Waits for what is under way and decodes it to `out`, uint16 [lookups, 256], or raw, uint8 [rows, 264]; NULL: only into the rows of late.
int engram_wait(Reader *reader, void *out) {
    int failed = reader->broken;
    if (reader->uring.fd >= 0) {
        int64_t spin = SPIN_NS + reader->jobs * SPIN_ROW_NS;
        int64_t until = now_ns() + (spin < MOST_SPIN_NS ? spin : MOST_SPIN_NS);
        while (reader->reaped < reader->jobs && !failed) {
            reap(reader);
            // A thread that sleeps is woken late, tens of microseconds on an idle core and milliseconds on a busy one.
            if (reader->queued == reader->jobs && now_ns() < until) continue;
            // Where the kernel takes no more, reads may be under way to buffers that are ours: this reader answers no more.
            if (reader->reaped < reader->jobs) reader->broken = failed = submit(reader, 1);
        }
    } else {
        while (take_job(reader)) {}
        while (atomic_load(&reader->done) < reader->jobs) sched_yield();
    }
    if (!failed) failed = -atomic_exchange(&reader->error, 0);
    pthread_mutex_lock(&reader->taking);
    reader->jobs = 0;
    pthread_mutex_unlock(&reader->taking);
    for (int64_t row = 0; row < reader->distinct && !failed; row++) {
        uint8_t *from = reader->buffer + row * room_of(reader);
        if (reader->direct) {  // the row's parts lie somewhere in their pages: brought together at the front
            uint8_t whole[ROW];
            for (int which = 0; which < reader->parts; which++) {
                const Part *part = &reader->part[which];
                int64_t offset = part->base + (int64_t)reader->ids[row] * part->length;
                memcpy(whole + part->at, from + which * 2 * PAGE + (offset & (PAGE - 1)), (size_t)part->length);
            }
            memcpy(from, whole, ROW);
        }
        if (reader->late_id) {
            uint32_t place = mixed(reader->ids[row]) & reader->late_mask;
            reader->late_id[place] = reader->ids[row];
            memcpy(reader->late_row + (size_t)place * ROW, from, ROW);
        }
    }
    for (int64_t k = 0; k < reader->wanting && out && !failed; k++)
        give(reader, reader->buffer + reader->wants[k] * room_of(reader), 0, out, reader->wanted_by[k]);
    reader->distinct = reader->wanting = 0;
    return failed;
}

// Finds each lookup's place among the resident rows into `todo`, -1 where it has none. Every step is a miss of the CPU's caches, so all
// lookups take it together: lines are fetched before any is read, rows before any is decoded.
static void find_resident(Reader *reader, const int64_t *ids, int64_t count, const uint32_t *lines, const uint8_t *held, int size) {
    for (int64_t k = 0; k < count && lines; k++)
        if (ids[k] >= 0) __builtin_prefetch(lines + ids[k] / LINE_ROWS * LINE_WORDS);
    for (int64_t k = 0; k < count; k++) {
        int64_t place = lines && ids[k] >= 0 ? resident(lines, (uint32_t)ids[k]) : -1;
        reader->todo[k] = (int32_t)place;
        for (int at = 0; place >= 0 && !reader->raw && at < size; at += 64) __builtin_prefetch(held + place * size + at);
    }
}

// Begins a batch: ids int64 [count] below `rows`, negative for nobody's. What memory holds is decoded to `out` at once (NULL: nothing is
// decoded, the rows are only fetched), the others are asked for. Returns how many distinct rows are read, or a negative errno.
int64_t engram_begin(Reader *reader, const int64_t *ids, int64_t count, int64_t rows, const uint32_t *lines,
                     const uint8_t *held, int fp4, void *out) {
    int failed = engram_wait(reader, NULL);
    if (failed || (failed = grow(reader, count))) return failed;
    for (int64_t k = 0; k < count; k++)
        if (ids[k] >= rows) return -ERANGE;
    reader->given = 0;
    int size = fp4 ? HALF_ROW : ROW;
    find_resident(reader, ids, count, lines, held, size);
    if (count) memset(reader->seen, 0xff, ((size_t)reader->seen_mask + 1) * 4);
    for (int64_t k = 0; k < count; k++) {
        if (ids[k] < 0) {
            if (out && !reader->raw) memset((uint16_t *)out + k * VALUES, 0, VALUES * 2);
            continue;
        }
        uint32_t id = (uint32_t)ids[k], hash = mixed(id);
        int64_t place = reader->todo[k];
        if (place >= 0) {
            if (out && !reader->raw) give(reader, held + place * size, fp4, out, k);
            reader->counted[0]++;
            continue;
        }
        if (reader->late_id && reader->late_id[hash & reader->late_mask] == id) {
            if (out) give(reader, reader->late_row + (size_t)(hash & reader->late_mask) * ROW, 0, out, k);
            reader->counted[1]++;
            continue;
        }
        uint32_t at = hash & reader->seen_mask;
        while (reader->seen[at] >= 0 && reader->ids[reader->seen[at]] != id) at = (at + 1) & reader->seen_mask;
        if (reader->seen[at] < 0) reader->seen[at] = (int32_t)reader->distinct, reader->ids[reader->distinct++] = id;
        else reader->counted[3]++;
        reader->wants[reader->wanting] = reader->seen[at], reader->wanted_by[reader->wanting++] = (int32_t)k;
    }
    reader->counted[2] += reader->distinct;
    if ((failed = start_reads(reader))) return reader->broken = failed;
    return reader->distinct;
}

// Places of the rows that went out raw since `begin`, in their order; returns how many.
int64_t engram_places(const Reader *reader, int32_t *places) {
    memcpy(places, reader->places, (size_t)reader->given * 4);
    return reader->given;
}

// A step of a stream: host functions take one argument and cannot fail, so a row that cannot be read ends the process. Another row in its
// place, or zeros, would be wrong output without an error.
typedef struct {
    Reader *reader;
    const int64_t *ids;
    int64_t lookups, rows;
    const uint32_t *lines;
    uint8_t *read;
    int32_t *places, *given;
} Step;

static void end(const char *what, int64_t why) {
    fprintf(stderr, "sparkctl-vllm: an Engram row could not be %s: %s. This rank ends: another row in its place would be wrong output\n", what, strerror((int)-why));
    fflush(stderr);
    abort();
}

void engram_step_begin(void *argument) {
    Step *step = argument;
    int64_t read = engram_begin(step->reader, step->ids, step->lookups, step->rows, step->lines, NULL, 0, step->read);
    if (read < 0) end("asked for", read);
}

void engram_step_wait(void *argument) {
    Step *step = argument;
    int failed = engram_wait(step->reader, step->read);
    if (failed) end("read", failed);
    *step->given = (int32_t)engram_places(step->reader, step->places);
}

void engram_counted(const Reader *reader, long *counted) { memcpy(counted, reader->counted, sizeof reader->counted); }

void engram_close(Reader *reader) {
    engram_wait(reader, NULL);
    reader->stop = 1;
    for (int k = 0; k < reader->threads; k++) sem_post(&reader->work);
    for (int k = 0; k < reader->threads; k++) pthread_join(reader->thread[k], NULL);
    uring_close(&reader->uring);
    sem_destroy(&reader->work);
    pthread_mutex_destroy(&reader->taking);
    give_up_room(reader);
    free(reader->late_id), free(reader->late_row), free(reader->thread), free(reader);
}

// Opens a reader on a file. Parts: one of 264 bytes, or weights and scales apart. `late`: rows of late, a power of two or 0. With
// `threads` 0 io_uring reads, and *why is the errno when the kernel or a container's filter refuses it.
Reader *engram_open(int fd, int direct, int parts, const Part *part, int threads, uint32_t late, int raw, int *why) {
    Reader *reader = calloc(1, sizeof *reader);
    *why = ENOMEM;
    if (!reader) return NULL;
    reader->fd = fd, reader->direct = direct, reader->parts = parts, reader->raw = raw, reader->uring.fd = -1;
    memcpy(reader->part, part, (size_t)parts * sizeof *part);
    sem_init(&reader->work, 0, 0);
    pthread_mutex_init(&reader->taking, NULL);
    if (late) {
        reader->late_mask = late - 1;
        reader->late_id = malloc((size_t)late * 4), reader->late_row = malloc((size_t)late * ROW);
        if (!reader->late_id || !reader->late_row) return engram_close(reader), NULL;
        for (uint32_t k = 0; k < late; k++) reader->late_id[k] = NOBODY;
    }
    if (!threads) {
        int failed = uring_open(&reader->uring);
        if (failed) return *why = -failed, engram_close(reader), NULL;
    }
    reader->thread = calloc((size_t)threads + 1, sizeof *reader->thread);
    for (; reader->thread && reader->threads < threads; reader->threads++)
        if ((*why = pthread_create(&reader->thread[reader->threads], NULL, serve, reader))) return engram_close(reader), NULL;
    return *why = 0, reader;
}
