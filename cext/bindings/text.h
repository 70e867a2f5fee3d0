// Python bindings of what reads text: rows, numbers and dates of a block, and distinct fields.
#pragma once

#include "bindings/views.h"
#include "host/gil.h"
#include "text/distinct.h"
#include "text/fields.h"
#include "text/rows.h"

namespace mfrank {

constexpr int64_t TEXT_BEGIN = 24;  // AHEAD of mfrank/data/fields.py

// Fields as places in bytes, each with AHEAD bytes before it and one after.
struct TextFields {
    const uint8_t* text;
    const int64_t *begins, *ends;
    int64_t n;
    TextFields(const py::bytes& raw, const py::object& from, const py::object& to)
        : text(reinterpret_cast<const uint8_t*>(PyBytes_AS_STRING(raw.ptr()))) {
        const Vector<const int64_t> first(from, "begins");
        const Vector<const int64_t> last(to, "ends", first.size);
        begins = first.data, ends = last.data, n = first.size;
        const int64_t size = PyBytes_GET_SIZE(raw.ptr());
        bool inside = true;
        for (int64_t row = 0; row < n; ++row)
            inside &= begins[row] >= AHEAD && begins[row] <= ends[row] && ends[row] < size;
        if (!inside) throw py::index_error("fields must lie in the text, after its first bytes");
    }
};

inline bool whole_numbers(const py::bytes& raw, const py::object& begins, const py::object& ends,
                          const py::object& out) {
    const TextFields fields(raw, begins, ends);
    const Vector<int64_t> numbers(out, "out", fields.n);
    const ReleasedGil released;
    for (int64_t row = 0; row < fields.n; ++row)
        if (!whole_number(fields.text + fields.begins[row], fields.text + fields.ends[row],
                          numbers.data[row]))
            return false;
    return true;
}

inline void decimals(const py::bytes& raw, const py::object& begins, const py::object& ends,
                     const py::object& out, const py::object& valid) {
    const TextFields fields(raw, begins, ends);
    const Vector<double> numbers(out, "out", fields.n);
    const Vector<bool> found(valid, "valid", fields.n);
    const ReleasedGil released;
    for (int64_t row = 0; row < fields.n; ++row)
        found.data[row] = decimal(fields.text + fields.begins[row], fields.text + fields.ends[row],
                                  numbers.data[row]);
}

inline int dates(const py::bytes& raw, const py::object& begins, const py::object& ends,
                 const py::object& out) {
    const TextFields fields(raw, begins, ends);
    const Vector<int64_t> seconds(out, "out", fields.n);
    const ReleasedGil released;
    int clocks = 0;
    for (int64_t row = 0; row < fields.n; ++row) {
        const Clock clock = date(fields.text + fields.begins[row], fields.text + fields.ends[row],
                                 seconds.data[row]);
        if (clock == Clock::invalid) return -1;
        clocks |= (clock == Clock::without_zone) | (clock == Clock::with_zone) << 1;
    }
    return clocks;
}

// How many rows, odd lines and lines there are; -1 rows if there was no room for all.
inline py::tuple split_rows(const py::bytes& raw, const py::bytes& separator,
                            const py::bytes& quote, const py::object& columns, int64_t n_needed,
                            const py::object& name, int64_t n_first, const py::object& begins,
                            const py::object& ends, const py::object& lines,
                            const py::object& odd) {
    SplitTask task{};
    const auto chars = [](const py::object& each) {
        return reinterpret_cast<const uint8_t*>(PyBytes_AS_STRING(each.ptr()));
    };
    const std::string between = separator, mark = quote;
    const Vector<const int32_t> column(columns, "columns");
    task.text = chars(raw), task.begin = TEXT_BEGIN, task.end = PyBytes_GET_SIZE(raw.ptr()) - 1;
    const uint8_t last = task.end > task.begin ? task.text[task.end - 1] : 0;
    if (last != '\n' && last != '\r')
        throw py::value_error("raw must be lines after 24 bytes, and a byte after them");
    task.doubled = between.size() == 2 && between[0] == between[1];
    if (between.size() != 1u + task.doubled || mark.size() > 1)
        throw py::value_error("separator and quote must be one character, or two equal ones");
    task.separator = uint8_t(between[0]), task.mark = mark.empty() ? NO_MARK : uint8_t(mark[0]);
    const Matrix<int64_t> from(begins, "begins");
    const Matrix<int64_t> to(ends, "ends", from.rows, from.columns);
    task.width = column.size, task.column = column.data, task.n_columns = from.rows;
    task.n_needed = n_needed;
    for (int64_t field = 0; field < task.width; ++field)
        if (column.data[field] >= from.rows)
            throw py::index_error("columns must be rows of begins, or -1");
    if (!name.is_none())
        task.name = chars(name.cast<py::bytes>()), task.name_size = PyBytes_GET_SIZE(name.ptr());
    task.n_first = n_first;
    const uint8_t *first = task.text + task.begin, *end = task.text + task.end;
    task.has_returns = std::memchr(first, '\r', end - first) != nullptr;
    task.capacity = from.columns, task.begins = from.data, task.ends = to.data;
    task.lines = Vector<int64_t>(lines, "lines", task.capacity).data;
    task.odd = Vector<int64_t>(odd, "odd", task.capacity).data;
    {
        const ReleasedGil released;
        Splitter(task).run();
    }
    return py::make_tuple(task.is_full ? -1 : task.n_rows, task.n_odd, task.n_lines);
}

// A table of n distinct fields: slots, of three words each, bounds and bytes.
inline DistinctTable distinct_table(const py::tuple& table, int64_t n) {
    if (table.size() != 3) throw py::value_error("table must be (slots, bounds, bytes)");
    const Vector<uint64_t> slots(table[0], "slots");
    const Vector<int64_t> bounds(table[1], "bounds");
    const Vector<uint8_t> bytes(table[2], "bytes");
    const int64_t n_slots = slots.size / 3, most = bounds.size - 1;
    if (slots.size % 3 || n_slots < 1 || n_slots & (n_slots - 1) || n_slots <= most)
        throw py::value_error("slots must be three times a power of two, with some free ones");
    if (most < 0 || bounds.data[0] != AHEAD) throw py::value_error("bounds must begin with 8");
    if (n < 0 || n > most || most > INT32_MAX)
        throw py::value_error("n must lie in 0..the number of bounds, which fits int32");
    if (n && bounds.data[n] > bytes.size) throw py::value_error("bytes must have all known fields");
    Slot* first = reinterpret_cast<Slot*>(slots.data);
    return {first, n_slots, bounds.data, bytes.data, most, bytes.size, n};
}

// How many fields are numbered, and how many distinct ones there are now.
inline py::tuple number_fields(const py::bytes& raw, const py::object& begins,
                               const py::object& ends, const py::tuple& table, int64_t n,
                               const py::object& out) {
    const TextFields fields(raw, begins, ends);
    const Vector<int32_t> codes(out, "out", fields.n);
    DistinctTable own = distinct_table(table, n);
    int64_t row = 0;
    {
        const ReleasedGil released;
        row = number_all(own, fields.text, fields.begins, fields.ends, fields.n, codes.data);
    }
    return py::make_tuple(row, own.n);
}

inline void fill_slots(const py::tuple& table, int64_t n) {
    DistinctTable own = distinct_table(table, n);
    const ReleasedGil released;
    fill(own);
}

inline void bind_text(py::module_& m) {
    using namespace pybind11::literals;
    m.def("split_rows", split_rows, "raw"_a, py::kw_only(), "separator"_a, "quote"_a, "columns"_a,
          "n_needed"_a, "name"_a, "n_first"_a, "begins"_a, "ends"_a, "lines"_a, "odd"_a);
    m.def("whole_numbers", whole_numbers, "raw"_a, "begins"_a, "ends"_a, "out"_a);
    m.def("decimals", decimals, "raw"_a, "begins"_a, "ends"_a, "out"_a, "valid"_a);
    m.def("dates", dates, "raw"_a, "begins"_a, "ends"_a, "out"_a);
    m.def("number_fields", number_fields, "raw"_a, "begins"_a, "ends"_a, py::kw_only(), "table"_a,
          "n"_a, "out"_a);
    m.def("fill_slots", fill_slots, "table"_a, "n"_a);
}

}  // namespace mfrank
