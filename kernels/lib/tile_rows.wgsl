// The rows of a thread, four in every tile: a quad that follows weight_row's. Of those behind the matrix's end some weights of its neighbour, or
// none, are read and the results not used.
const R = 4u;
struct Rows {
    a: Row,
    b: Row,
    c: Row,
    d: Row,
}
fn rows_at(row: u32) -> Rows {
    let first = weight_row(row);
    return Rows(first, row_after(first, 1u), row_after(first, 2u), row_after(first, 3u));
}
