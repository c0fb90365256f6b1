//! Writes dayfly's man pages and shell completions, generated from its parser's definitions, and the shim's man page:
//! `cargo run -p dayfly-docgen -- OUTDIR` fills `OUTDIR/man` and `OUTDIR/completions`.

mod command;
mod completions;
mod man;
mod tables;

use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    let [directory] = &arguments[..] else {
        eprintln!("usage: dayfly-docgen OUTDIR");
        return ExitCode::from(2);
    };
    let directory = Path::new(directory);
    let program = command::program();
    let written = man::write(&program, &directory.join("man"))
        .and_then(|()| completions::write(&program, &directory.join("completions")));
    match written {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("dayfly-docgen: {}: {error}", directory.display());
            ExitCode::FAILURE
        }
    }
}
