//! Output to a file or to standard output.

use report::{Error, say};
use std::fs::{self, File, Permissions};
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Writes `text` to `file`, or to standard output if `file` is `None` or `-`.
///
/// # Errors
/// The file cannot be written.
pub fn write(file: Option<&Path>, text: &str) -> Result<(), Error> {
    match file.filter(|file| *file != Path::new("-")) {
        Some(file) => fs::write(file, text).map_err(Error::of("write", file)),
        None => {
            say!("{text}");
            Ok(())
        }
    }
}

/// Replaces a file atomically: readers see the old file or the new one, which has this mode, or that of the umask.
///
/// # Errors
/// The file cannot be written.
pub fn replace(file: &Path, text: &str, mode: Option<u32>) -> Result<(), Error> {
    let mut new = file.as_os_str().to_owned();
    new.push(".new");
    let new = PathBuf::from(new);
    let write = || {
        let mut opened = File::create(&new)?;
        mode.map_or(Ok(()), |mode| opened.set_permissions(Permissions::from_mode(mode)))?;
        opened.write_all(text.as_bytes())?;
        opened.sync_all()?;
        fs::rename(&new, file)
    };
    write().map_err(|error| {
        let _ = fs::remove_file(&new);
        Error::system("write", file.display(), error)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_written_as_a_whole() {
        let directory = std::env::temp_dir().join(format!("host-write-{}", std::process::id()));
        fs::create_dir(&directory).expect("mkdir");
        let file = directory.join("p.json");
        replace(&file, "one", None).expect("write");
        replace(&file, "two", Some(0o600)).expect("write again");
        assert_eq!(fs::read_to_string(&file).expect("read"), "two");
        assert_eq!(fs::metadata(&file).expect("stat").permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(&directory).expect("list").count(), 1);
        let error = replace(&directory.join("none/p.json"), "x", None).expect_err("no directory");
        assert!(error.to_string().contains("none/p.json"), "{error}");
        fs::remove_dir_all(&directory).expect("remove");
    }
}
