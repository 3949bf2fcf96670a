// What a row of Engram is, in C: its decoding to bfloat16 bits, and the place of a row among the resident ones. See row_format.py and
// membership.py, which say the same in NumPy.
#include <stdint.h>
#include <string.h>

enum { VALUES = 256, ROW = 264, HALF_ROW = 136, LINE_ROWS = 480, LINE_WORDS = 16 };

static const float half_value[16] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6, -0.0f, -0.5f, -1, -1.5f, -2, -3, -4, -6};

static float power(uint8_t byte) {
    uint32_t bits = (uint32_t)byte << 23;
    float value;
    memcpy(&value, &bits, 4);
    return value;
}

static uint16_t bfloat16(float value) {
    uint32_t bits;
    memcpy(&bits, &value, 4);
    if (value != value) return (uint16_t)((bits >> 16 & 0x8000) | 0x7fc0);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

// Written without branches, so that compilers make vector code of it: six times as fast as a table of the 256 values.
static void decode_group(const uint8_t *codes, float scale, uint16_t *out) {
    for (int k = 0; k < 32; k++) {
        uint32_t code = codes[k], size = code & 127, normal = (size << 20) + (120u << 23), bits;
        float value = (float)(int32_t)size * 0x1p-9f;
        memcpy(&bits, &value, 4);
        uint32_t less = 0u - (size < 8);
        bits = (bits & less) | (normal & ~less);
        memcpy(&value, &bits, 4);
        value *= scale;
        memcpy(&bits, &value, 4);
        uint32_t none = 0u - ((size == 127) | ((bits & 0x7fffffff) > 0x7f800000));
        uint32_t nearest = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
        out[k] = (uint16_t)((none & 0x7fc0) | (nearest & ~none) | (code & 128) << 8);
    }
}

static void decode_half_group(const uint8_t *codes, float scale, uint16_t *out) {
    for (int k = 0; k < 32; k++) out[k] = bfloat16(half_value[codes[k / 2] >> (k % 2 * 4) & 15] * scale);
}

static void decode(const uint8_t *row, int fp4, uint16_t *out) {
    const uint8_t *scales = row + (fp4 ? VALUES / 2 : VALUES);
    for (int group = 0; group < VALUES / 32; group++)
        if (fp4) decode_half_group(row + group * 16, power(scales[group]), out + group * 32);
        else decode_group(row + group * 32, power(scales[group]), out + group * 32);
}

// The place of a row among the resident ones, or -1: one line of 64 bytes, see membership.py.
static int64_t resident(const uint32_t *lines, uint32_t row) {
    const uint32_t *line = lines + (uint64_t)(row / LINE_ROWS) * LINE_WORDS;
    unsigned bit = row % LINE_ROWS, own = 1 + bit / 32;
    if (!(line[own] >> (bit % 32) & 1)) return -1;
    int64_t place = line[0] + __builtin_popcount(line[own] & ((1u << (bit % 32)) - 1));
    for (unsigned word = 1; word < own; word++) place += __builtin_popcount(line[word]);
    return place;
}
