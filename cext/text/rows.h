// Splits a block of delimited text into the fields of its ordinary lines; others are named as odd.
//
// An ordinary line has the fields that its file has, or more that are empty. Quotes simply enclose
// fields of it, or are text because no field begins with one. What odd lines mean is up to Python's
// csv module. mfrank/data/text_blocks.py does the same in numpy.
#pragma once

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "text/fields.h"

namespace mfrank {

constexpr int MOST_BLANKS = 32;  // before a field of an ordinary line
constexpr int NO_MARK = -1;

// Positions of up to four characters in a text, in ascending order.
class Stops {
   public:
    Stops(const uint8_t* text, int64_t begin, int64_t end, const uint8_t (&sought)[4])
        : text_(text), at_(begin - 64), end_(end) {
        std::memcpy(sought_, sought, 4);
    }

    // The next position, or the end.
    int64_t next() {
        while (!left_) {
            at_ += 64;
            if (at_ >= end_) return end_;
            if (at_ + 64 <= end_) {
                left_ = found(text_ + at_);
                continue;
            }
            uint8_t last[64] = {};
            std::memcpy(last, text_ + at_, end_ - at_);
            left_ = found(last) & ((uint64_t(1) << (end_ - at_)) - 1);
        }
        const int64_t place = at_ + __builtin_ctzll(left_);
        left_ &= left_ - 1;
        return place;
    }

   private:
    uint64_t found(const uint8_t* text) const {
        uint64_t all = 0;
#if defined(__SSE2__)
        for (int part = 0; part < 4; ++part) {
            const __m128i bytes =
                _mm_loadu_si128(reinterpret_cast<const __m128i*>(text + 16 * part));
            __m128i same = _mm_setzero_si128();
            for (const uint8_t each : sought_)
                same = _mm_or_si128(same, _mm_cmpeq_epi8(bytes, _mm_set1_epi8(char(each))));
            all |= uint64_t(uint16_t(_mm_movemask_epi8(same))) << (16 * part);
        }
#else
        for (int bit = 0; bit < 64; ++bit) {
            bool same = false;
            for (const uint8_t each : sought_) same |= text[bit] == each;
            all |= uint64_t(same) << bit;
        }
#endif
        return all;
    }

    const uint8_t* text_;
    int64_t at_, end_;
    uint8_t sought_[4];
    uint64_t left_ = 0;
};

struct SplitTask {
    const uint8_t* text;  // ends with a line break
    int64_t begin, end;
    uint8_t separator;
    bool doubled;  // the separator is this character twice
    int mark;      // the quote, or NO_MARK
    bool has_returns;
    int64_t width;
    const int32_t* column;  // of each field, or -1 if it is not wanted
    int64_t n_columns, n_needed;  // the first ones are never empty
    const uint8_t* name;  // of the users' column in a header, which may come again; or null
    int64_t name_size;
    int64_t n_first;      // lines of the header, which are odd
    // Places of the fields by column and row, lines of the rows, and odd lines.
    int64_t *begins, *ends, *lines, *odd;
    int64_t capacity;  // rows, and odd lines
    int64_t n_rows, n_odd, n_lines;
    bool is_full;  // there was no room for all
};

class Splitter {
   public:
    explicit Splitter(SplitTask& task) : task_(task) {
        if (!task.name) return;
        uint8_t first[2 * AHEAD] = {};
        known_ = std::min(task.name_size, AHEAD);
        std::memcpy(first + AHEAD, task.name, known_);
        word_ = last_bytes(first + AHEAD + known_, known_);
    }

    void run() {
        task_.is_full = task_.capacity == 0;
        const uint8_t mark = task_.mark == NO_MARK ? '\n' : uint8_t(task_.mark);
        const uint8_t sought[4] = {task_.separator, '\n', task_.has_returns ? uint8_t('\r') : mark,
                                   mark};
        Stops stops(task_.text, task_.begin, task_.end, sought);
        begin_line(task_.begin);
        for (int64_t at; !task_.is_full && (at = stops.next()) < task_.end;) {
            if (at < resume_) continue;
            const uint8_t code = task_.text[at];
            if (code == '\n' || code == '\r')
                end_line(at);
            else if (code == task_.mark)
                quote(at);
            else if (!in_quotes_)
                separate(at);
        }
    }

   private:
    void begin_line(int64_t at) {
        line_begin_ = at, resume_ = at;
        field_ = 0, last_end_ = at;
        odd_ = task_.n_lines < task_.n_first;
        encloses_ = strays_ = false;
        begin_field(at);
    }

    void begin_field(int64_t at) {
        int blanks = 0;
        while (task_.text[at] == ' ' && blanks < MOST_BLANKS) ++at, ++blanks;
        begin_ = at, closed_ = -1;
        in_quotes_ = has_doubled_ = false;
        column_ = field_ < task_.width ? task_.column[field_] : -1;
        // After so many blanks, the csv module finds out where the field begins.
        if (blanks == MOST_BLANKS && task_.text[at] == ' ') odd_ = true;
    }

    void quote(int64_t at) {
        const uint8_t behind = task_.text[at + 1];
        if (task_.doubled) {
            odd_ = true;
        } else if (in_quotes_) {
            if (behind == task_.mark) {
                has_doubled_ = true, resume_ = at + 2;
            } else {
                closed_ = at, in_quotes_ = false;
                if (behind != task_.separator && behind != '\n' && behind != '\r') odd_ = true;
            }
        } else if (at == begin_ && closed_ < 0) {
            in_quotes_ = encloses_ = true;
        } else {
            strays_ = true;
        }
    }

    void separate(int64_t at) {
        const uint8_t* text = task_.text;
        if (task_.doubled) {
            if (text[at + 1] != task_.separator) return;
            if (text[at + 2] == task_.separator) odd_ = true;
            resume_ = at + 2;
        } else if (task_.separator == ' ') {  // several are one, and those before a line are none
            if (at == line_begin_ || text[at - 1] == ' ') return;
        }
        end_field(at);
        begin_field(at + 1 + task_.doubled);
    }

    void end_field(int64_t at) {
        if (column_ >= 0) {
            const bool quoted = closed_ >= 0;
            const int64_t begin = begin_ + quoted, end = quoted ? closed_ : at;
            if ((column_ < task_.n_needed && begin >= end) || has_doubled_) odd_ = true;
            const int64_t place = column_ * task_.capacity + task_.n_rows;
            task_.begins[place] = begin, task_.ends[place] = end;
        }
        if (++field_ == task_.width) last_end_ = at;
    }

    void end_line(int64_t at) {
        if (in_quotes_) odd_ = true;
        end_field(at);
        const int64_t more = field_ - task_.width;
        if (more < 0 || at - last_end_ != more * (1 + task_.doubled)) odd_ = true;
        if (at > line_begin_) {
            const bool is_odd = odd_ || (encloses_ && strays_) || may_be_header();
            if (is_odd)
                task_.odd[task_.n_odd++] = task_.n_lines;
            else
                task_.lines[task_.n_rows++] = task_.n_lines;
            task_.is_full = std::max(task_.n_odd, task_.n_rows) == task_.capacity;
        }
        ++task_.n_lines;
        const bool two = task_.text[at] == '\r' && task_.text[at + 1] == '\n';
        begin_line(at + 1 + two);
    }

    // Whether the user, the first column, may be the name: alone, or beside what is no text.
    bool may_be_header() const {
        if (!task_.name) return false;
        const int64_t begin = task_.begins[task_.n_rows];
        const int64_t size = task_.ends[task_.n_rows] - begin;
        const uint8_t* field = task_.text + begin;
        if (field[0] <= ' ' || field[0] == 0xef) return true;  // a byte order mark
        if (size < task_.name_size || last_bytes(field + known_, known_) != word_) return false;
        if (std::memcmp(field, task_.name, task_.name_size)) return false;
        return size == task_.name_size || field[task_.name_size] <= ' ';
    }

    SplitTask& task_;
    int64_t known_ = 0;  // bytes of the name that are in the word
    uint64_t word_ = 0;
    int64_t line_begin_, resume_, begin_, closed_, last_end_, field_, column_;
    bool odd_, encloses_, strays_, in_quotes_, has_doubled_;
};

}  // namespace mfrank
