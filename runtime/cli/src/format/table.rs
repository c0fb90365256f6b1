//! Tables in the layout that runc produces with Go's tabwriter: columns are at least twelve characters wide, and are
//! separated by three blanks.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Write;
use core::iter;

const PADDING: usize = 3;
const LEAST_WIDTH: usize = 12;

/// Returns `rows` as a table below `title`. Every line ends with a newline.
pub fn layout<const N: usize>(
    title: [&str; N],
    rows: impl IntoIterator<Item = [String; N]>,
) -> String {
    let rows: Vec<[String; N]> = iter::once(title.map(String::from)).chain(rows).collect();
    let mut widths = [LEAST_WIDTH; N];
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count() + PADDING);
        }
    }
    let mut text = String::new();
    for row in &rows {
        for (at, (width, cell)) in widths.iter().zip(row).enumerate() {
            // The last cell is not padded.
            let width = if at + 1 == N { 0 } else { *width };
            let _ = write!(text, "{cell:<width$}");
        }
        text.push('\n');
    }
    text
}
