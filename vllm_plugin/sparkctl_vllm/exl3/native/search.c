// Tail-biting search of EXL3 tiles on a CPU, by the rules of exl3/search.py: numbers in, the walk of 256 states that lies closest out.
//
// A state is (edge << (16 - K)) | overlap; the overlap before it is its high 16 - K bits, so 2^K neighbouring overlaps have their predecessors in common
// and are one vector. Costs are float32; the edge that was taken is kept in a byte for each overlap and step, and followed back.

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { STATES = 1 << 16, RING = 256 };

// The best walk over `steps` numbers. start < 0: any; else it begins behind this overlap and ends on it. states: int32 [steps].
#define WALK(K) \
    static void walk##K(const float *numbers, const float *table, int steps, int start, float *cost, float *after, uint8_t *back, \
                        int32_t *states) { \
        enum { EDGES = 1 << K, OVERLAPS = STATES >> K, STRIDE = OVERLAPS / EDGES }; \
        for (int at = 0; at < OVERLAPS; at++) cost[at] = start < 0 || at == start ? 0.0f : 1e30f; \
        for (int step = 0; step < steps; step++) { \
            const float wanted = numbers[step]; \
            uint8_t *edges = back + (size_t)step * OVERLAPS; \
            for (int group = 0; group < STRIDE; group++) { \
                float best[EDGES]; \
                int32_t chosen[EDGES]; \
                for (int at = 0; at < EDGES; at++) best[at] = 3e38f, chosen[at] = 0; \
                for (int edge = 0; edge < EDGES; edge++) { \
                    const float *values = table + edge * OVERLAPS + group * EDGES, before = cost[edge * STRIDE + group]; \
                    _Pragma("omp simd") for (int at = 0; at < EDGES; at++) { \
                        const float off = values[at] - wanted, total = off * off + before; \
                        chosen[at] = total < best[at] ? edge : chosen[at]; \
                        best[at] = total < best[at] ? total : best[at]; \
                    } \
                } \
                for (int at = 0; at < EDGES; at++) after[group * EDGES + at] = best[at], edges[group * EDGES + at] = (uint8_t)chosen[at]; \
            } \
            float *swapped = cost; \
            cost = after, after = swapped; \
        } \
        int overlap = start; \
        if (start < 0) { \
            overlap = 0; \
            for (int at = 1; at < OVERLAPS; at++) \
                if (cost[at] < cost[overlap]) overlap = at; \
        } \
        for (int step = steps - 1; step >= 0; step--) { \
            states[step] = back[(size_t)step * OVERLAPS + overlap] * OVERLAPS + overlap; \
            overlap = states[step] >> K; \
        } \
    }

WALK(1)
WALK(2)
WALK(3)
WALK(4)

typedef void (*walk_t)(const float *, const float *, int, int, float *, float *, uint8_t *, int32_t *);

// numbers float32 [tiles, 256], table float32 [65536], states int32 [tiles, 256]; K is 1 to 4, seam at most 128. Returns 0, or 1 without memory.
int trellis_search(const float *numbers, const float *table, int32_t *states, int tiles, int bits, int seam) {
    const walk_t walk = (walk_t[]){walk1, walk2, walk3, walk4}[bits - 1];
    const size_t overlaps = STATES >> bits;
    int failed = 0;
#pragma omp parallel
    {
        float *cost = malloc(2 * overlaps * sizeof(float));
        uint8_t *back = malloc(RING * overlaps);
        if (!cost || !back) {
#pragma omp atomic write
            failed = 1;
        }
#pragma omp barrier
#pragma omp for schedule(dynamic)
        for (int tile = 0; tile < tiles; tile++) {
            if (failed) continue;
            const float *mine = numbers + (size_t)tile * RING;
            float stretch[RING];
            memcpy(stretch, mine + RING - seam, seam * sizeof(float));
            memcpy(stretch + seam, mine, seam * sizeof(float));
            int32_t *found = states + (size_t)tile * RING;
            walk(stretch, table, 2 * seam, -1, cost, cost + overlaps, back, found);
            walk(mine, table, RING, found[seam - 1] & (int)(overlaps - 1), cost, cost + overlaps, back, found);
        }
        free(cost);
        free(back);
    }
    return failed;
}
