// mfrank._ext: the extension module. Its functions are stateless and borrow their arrays, so that a
// free-threaded Python may run them without its lock; an array that a call is given must not be
// changed by another thread meanwhile, as everywhere in numpy.
#include "bindings/cells.h"
#include "bindings/links.h"
#include "bindings/lists.h"
#include "bindings/losses.h"
#include "bindings/rows.h"
#include "bindings/text.h"
#include "bindings/topk.h"
#include "bindings/walks.h"
#include "host/isa.h"

PYBIND11_MODULE(_ext, m, pybind11::mod_gil_not_used()) {
    using namespace mfrank;
    m.doc() = "Native kernels of mfrank.backends.cpu; see _ext.pyi.";

    m.def("isa", [] { return name_of(chosen_isa()); });
    bind_rows(m);
    bind_cells(m);
    bind_links(m);
    bind_lists(m);
    bind_losses(m);
    bind_text(m);
    bind_topk(m);
    bind_walk(m);
}
