// cuda/exl3_decode.cuh for a CPU: the states and byte sums of one tile, lane by lane as a warp has them.
#include "exl3_decode.cuh"

using namespace exl3;

template <int K, int P>
void decode_lane(const uint32_t (&w)[K + 1], int32_t *states, int32_t *sums) {
    states[P] = (int32_t)state<K, P>(w);
    sums[P] = bytes(coded<K, P>(w));
    if constexpr (P > 0) decode_lane<K, P - 1>(w, states, sums);
}

template <int K>
int decode(const uint32_t *tile, int32_t *states, int32_t *sums) {
    for (int lane = 0; lane < 8; lane++) {
        uint32_t w[K + 1];
        for (int i = 0; i < K; i++) w[i + 1] = tile[lane * K + i];
        w[0] = tile[(lane + 7) % 8 * K + K - 1];
        decode_lane<K, POSITIONS - 1>(w, states + lane * POSITIONS, sums + lane * POSITIONS);
    }
    return 0;
}

extern "C" int decode_tile(const uint32_t *tile, int bits, int32_t *states, int32_t *sums) {
    return bits == 2 ? decode<2>(tile, states, sums) : bits == 3 ? decode<3>(tile, states, sums) : bits == 4 ? decode<4>(tile, states, sums) : -1;
}

// Where the products take a position's weight from: row within the tile, column within its half.
extern "C" int place_of(int row, int upper) { return position(row, upper != 0); }
