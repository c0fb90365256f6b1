//! Writing to standard output without `print!`, which panics if the reader has closed the pipe or the disk is full.

use std::fmt;
use std::io::{self, Write};

/// The exit status if the reader has closed the pipe: the status that a shell reports for a program killed by SIGPIPE.
const NOBODY_READS: i32 = 128 + 13;

/// Prints a text like `print!`, but by means of [`write()`].
#[macro_export]
macro_rules! say {
    ($($text:tt)*) => { $crate::say::write(format_args!($($text)*)) };
}

/// Prints a line like `println!`, but by means of [`write()`].
#[macro_export]
macro_rules! sayln {
    () => { $crate::say::write(format_args!("\n")) };
    ($($text:tt)*) => { $crate::say::write(format_args!("{}\n", format_args!($($text)*))) };
}

/// Writes to standard output. If that fails, the program exits: silently if the reader has closed the pipe (`dayfly
/// cgroup ls | head`), otherwise with an error message. A message about a change should therefore be printed before the
/// change is made.
pub fn write(text: fmt::Arguments<'_>) {
    let mut out = io::stdout().lock();
    let Err(error) = out.write_fmt(text) else { return };
    if error.kind() == io::ErrorKind::BrokenPipe {
        std::process::exit(NOBODY_READS);
    }
    let error = crate::Error::system("write", "standard output", error);
    let _ = writeln!(io::stderr(), "error: {error}");
    std::process::exit(1);
}
