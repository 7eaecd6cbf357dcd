// The rows of a thread, four in every tile.
const R = 4u;
struct Rows {
    a: Row,
    b: Row,
    c: Row,
    d: Row,
}
fn rows_at(row: u32) -> Rows { return Rows(weight_row(row), weight_row(row + 1u), weight_row(row + 2u), weight_row(row + 3u)); }
