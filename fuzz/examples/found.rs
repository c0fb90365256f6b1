//! `found keep|lay-out TARGET DIRECTORY`: `keep` stores the files in `DIRECTORY` as the inputs of `TARGET`; `lay-out`
//! writes the target's stored inputs to files in `DIRECTORY`. Used by scripts/fuzz.

use std::path::Path;
use std::process::ExitCode;

use dayfly_fuzz::kept;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let result = match arguments[..] {
        ["keep", target, directory] => kept::keep(target, Path::new(directory)),
        ["lay-out", target, directory] => kept::lay_out(target, Path::new(directory)),
        _ => {
            eprintln!("usage: found keep|lay-out TARGET DIRECTORY");
            return ExitCode::from(2);
        }
    };
    match result {
        Ok(count) => {
            println!("{count}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("found: {error}");
            ExitCode::FAILURE
        }
    }
}
