// What fields of text are: whole numbers, decimals and dates, of the usual spellings alone.
//
// mfrank/data/fields.py does the same in numpy, and mfrank/data/times.py in Python.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

namespace mfrank {

constexpr int64_t AHEAD = 8;  // bytes before a field that are read
constexpr int64_t MOST_DIGITS = 19;

constexpr uint64_t POWERS[MOST_DIGITS + 1] = {1u,
                                              10u,
                                              100u,
                                              1000u,
                                              10000u,
                                              100000u,
                                              1000000u,
                                              10000000u,
                                              100000000u,
                                              1000000000u,
                                              10000000000u,
                                              100000000000u,
                                              1000000000000u,
                                              10000000000000u,
                                              100000000000000u,
                                              1000000000000000u,
                                              10000000000000000u,
                                              100000000000000000u,
                                              1000000000000000000u,
                                              10000000000000000000u};

__extension__ typedef unsigned __int128 Wide;

// Eight bytes, of which the first is the lowest.
inline uint64_t word_at(const uint8_t* place) {
    uint64_t word;
    std::memcpy(&word, place, sizeof word);
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    word = __builtin_bswap64(word);
#endif
    return word;
}

// The last `size` bytes, at most eight, before `end`; zeros are below them.
inline uint64_t last_bytes(const uint8_t* end, int64_t size) {
    const int below = int(8 - size) * 8;
    return below == 64 ? 0 : word_at(end - 8) >> below << below;
}

// The number of the last `size` bytes, 1 to 8, of a word; whether they are digits. Its halves are
// added up three times.
inline bool digits_of(uint64_t word, int64_t size, uint64_t& number) {
    const int below = int(8 - size) * 8;
    word ^= 0x3030303030303030u >> below << below;
    const bool valid = ((word | (word + 0x0606060606060606u)) & 0xF0F0F0F0F0F0F0F0u) == 0;
    word = (word * 10 + (word >> 8)) & 0x00FF00FF00FF00FFu;
    word = (word * 100 + (word >> 16)) & 0x0000FFFF0000FFFFu;
    number = (word * 10000 + (word >> 32)) & 0x00000000FFFFFFFFu;
    return valid;
}

// Reads at most 19 digits, 0 of none; whether there are only digits.
inline bool digits(const uint8_t* begin, const uint8_t* end, uint64_t& number) {
    bool valid = true;
    number = 0;
    for (int64_t done = 0; done < end - begin; done += 8) {
        const int64_t size = std::min<int64_t>(8, end - begin - done);
        uint64_t part;
        valid &= digits_of(last_bytes(end - done, size), size, part);
        number += part * POWERS[done];
    }
    return valid;
}

// Reads up to eight digits, in place of one of which a point may be.
inline bool short_decimal(const uint8_t* end, int64_t size, double& number) {
    constexpr uint64_t LOW = 0x7F7F7F7F7F7F7F7Fu;
    uint64_t word = last_bytes(end, size);
    const uint64_t apart = word ^ 0x2E2E2E2E2E2E2E2Eu;  // 0 where the point is
    const uint64_t point = ~(((apart & LOW) + LOW) | apart | LOW);
    int64_t places = 0;
    if (point) {
        const int at = __builtin_ctzll(point) - 7;
        places = 7 - at / 8;
        const uint64_t before = (uint64_t(1) << at) - 1;
        word = ((word & before) << 8) | (word & ~before & ~(uint64_t(0xFF) << at));
        --size;
    }
    uint64_t found = 0;
    if (size < 1 || !digits_of(word, size, found)) return false;
    number = double(int64_t(found)) / double(int64_t(POWERS[places]));
    return true;
}

// Whether the field is spelled as Python prints an int64.
inline bool whole_number(const uint8_t* begin, const uint8_t* end, int64_t& number) {
    const bool minus = begin < end && *begin == '-';
    begin += minus;
    const int64_t size = end - begin;
    if (size < 1 || size > MOST_DIGITS || (*begin == '0' && (size > 1 || minus))) return false;
    uint64_t found;
    if (!digits(begin, end, found) || found > uint64_t(INT64_MAX) + minus) return false;
    number = int64_t(minus ? 0 - found : found);
    return true;
}

// The double that is nearest to number / 10^places, as Python reads it: ties go to even.
inline double quotient(uint64_t number, int64_t places) {
    if (number <= uint64_t(1) << 53 || !places) return double(number) / double(POWERS[places]);
    const Wide dividend = Wide(number) << 64, whole = dividend / POWERS[places];
    const uint64_t high = uint64_t(whole >> 64), low = uint64_t(whole);
    const int bits = high ? 128 - __builtin_clzll(high) : 64 - __builtin_clzll(low);
    const int dropped = bits - 53;  // at least 1, because the whole is above 2^117 / 10^19
    const Wide below = whole & ((Wide(1) << dropped) - 1), half = Wide(1) << (dropped - 1);
    uint64_t kept = uint64_t(whole >> dropped);
    const bool is_tie = below == half && whole * POWERS[places] == dividend;
    kept += is_tie ? kept & 1 : below >= half;
    return std::ldexp(double(kept), dropped - 64);
}

// Whether the field is digits, at most 19, and perhaps a sign and a point.
inline bool decimal(const uint8_t* begin, const uint8_t* end, double& number) {
    const bool minus = begin < end && *begin == '-';
    begin += minus || (begin < end && *begin == '+');
    if (end - begin <= 8) {
        const bool valid = short_decimal(end, end - begin, number);
        number = minus ? -number : number;
        return valid;
    }
    const uint8_t* point = begin;
    const uint8_t* last = begin + std::min<int64_t>(end - begin, MOST_DIGITS + 1);
    while (point < last && *point != '.') ++point;
    const bool has_point = point < end && *point == '.';
    if (!has_point) point = end;
    const int64_t size = end - begin - has_point, places = has_point ? end - point - 1 : 0;
    if (size < 1 || size > MOST_DIGITS) return false;
    uint64_t whole, part = 0;
    if (!digits(begin, point, whole) || (places && !digits(point + 1, end, part))) return false;
    const double found = quotient(whole * POWERS[places] + part, places);
    number = minus ? -found : found;
    return true;
}

// Whether a date has no time of day, or one without or with its zone.
enum class Clock { invalid, none, without_zone, with_zone };

// Seconds since 1970 of 2024-01-31, 2024-01-31T15:59:30 or one with fractions and UTC for a zone.
inline Clock date(const uint8_t* begin, const uint8_t* end, int64_t& second) {
    const int64_t size = end - begin;
    if (size < 10) return Clock::invalid;
    unsigned foreign = 0;
    const auto two = [&](int64_t at) {
        const unsigned tens = unsigned(begin[at]) - '0', ones = unsigned(begin[at + 1]) - '0';
        foreign |= (tens > 9) | (ones > 9);
        return int64_t(tens * 10 + ones);
    };
    const int64_t year = 100 * two(0) + two(2), month = two(5), day = two(8);
    foreign |= begin[4] != '-' || begin[7] != '-' || year < 1 || month < 1 || month > 12 || day < 1;
    if (foreign) return Clock::invalid;
    const bool leaps = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    const int64_t sizes[12] = {31, leaps ? 29 : 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    if (day > sizes[month - 1]) return Clock::invalid;
    // Of years that begin in March, whose last day is the one that leaps.
    const int64_t own_year = year - (month <= 2), since_march = (month + 9) % 12;
    const int64_t days = 365 * own_year + own_year / 4 - own_year / 100 + own_year / 400 +
                         (153 * since_march + 2) / 5 + day - 1 - 719468;
    second = days * 86400;
    if (size == 10) return Clock::none;
    if (size < 19 || (begin[10] != 'T' && begin[10] != ' ')) return Clock::invalid;
    const int64_t hours = two(11), minutes = two(14), seconds = two(17);
    foreign |= begin[13] != ':' || begin[16] != ':' || hours > 23 || minutes > 59 || seconds > 59;
    if (foreign) return Clock::invalid;
    second += 3600 * hours + 60 * minutes + seconds;
    const uint8_t* rest = begin + 19;
    if (rest < end && *rest == '.') {
        const uint8_t* fraction = ++rest;
        while (rest < end && unsigned(*rest) - '0' < 10) ++rest;
        if (rest == fraction || rest - fraction > 9) return Clock::invalid;
    }
    if (rest == end) return Clock::without_zone;
    const bool is_utc = (end - rest == 1 && *rest == 'Z') ||
                        (end - rest == 4 && !std::memcmp(rest, " UTC", 4));
    return is_utc ? Clock::with_zone : Clock::invalid;
}

}  // namespace mfrank
