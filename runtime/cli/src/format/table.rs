//! Tables in the layout of Go's tabwriter in runc: columns at least twelve wide, three blanks apart.

use alloc::string::String;
use core::fmt::Write;

const PADDING: usize = 3;
const LEAST_WIDTH: usize = 12;

/// Lays out `rows`, each terminated by a newline.
pub fn layout<const N: usize>(rows: &[[String; N]]) -> String {
    let mut widths = [LEAST_WIDTH; N];
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count() + PADDING);
        }
    }
    let mut text = String::new();
    for row in rows {
        for (at, (width, cell)) in widths.iter().zip(row).enumerate() {
            // Nothing follows the last cell, not even blanks.
            let width = if at + 1 == N { 0 } else { *width };
            let _ = write!(text, "{cell:<width$}");
        }
        text.push('\n');
    }
    text
}
