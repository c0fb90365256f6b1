//! Archives of tar(1) and gzip(1), and damaged ones.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Command;

use super::{MOST, archive, gzip};

/// Runs a shell script in a new directory, packs the directory as criu does, and returns the compressed archive.
fn packed(directory: &Path, script: &str) -> Vec<u8> {
    let _ = fs::remove_dir_all(directory);
    fs::create_dir_all(directory.join("from")).unwrap();
    let tar = "tar --create --gzip --no-unquote --no-wildcards --one-file-system --check-links \
               --preserve-permissions --sparse --numeric-owner --directory . .";
    let script = format!("cd from && {{ {script}; }} && {tar}");
    let output = Command::new("sh").args(["-ec", &script]).current_dir(directory).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    output.stdout
}

/// What stat(2) tells of each file below a directory, and its content or target.
fn shown(directory: &Path) -> Vec<String> {
    let script = "find . -printf '%p %y %m %U:%G %T@ %n %s %l\\n' | sort; find . -type f | sort | xargs -r md5sum";
    let output = Command::new("sh").args(["-ec", script]).current_dir(directory).output().unwrap();
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn unpacked_as_by_tar() {
    let directory = std::env::temp_dir().join(format!("untar-{}", std::process::id()));
    let script = "umask 0; mkdir -m 1777 tmp; mkdir -p a/b; echo text >a/b/file; : >empty; ln a/b/file a/hard; \
                  ln -s /proc/self/fd fd; mkfifo -m 600 fifo; chmod 4755 a/b/file; chmod 0500 a; \
                  seq 1 3000 >a/numbers; head -c 5000 /dev/urandom >a/random; touch -h -d @1000000000 fd a .";
    let file = packed(&directory, script);
    let unpacked = gzip::decompress(&file, MOST).unwrap();
    let to = directory.join("to");
    fs::create_dir(&to).unwrap();
    let root = sys::fs::open_dir(rustix::fs::CWD, &to).unwrap();
    archive::unpack(&root, &archive::entries(&unpacked).unwrap()).unwrap();
    let whole = |time: &str| time.split('.').next().unwrap_or_default().to_owned();
    let seconds = |lines: Vec<String>| -> Vec<String> {
        lines.iter().map(|line| line.split(' ').map(whole).collect::<Vec<_>>().join(" ")).collect()
    };
    assert_eq!(seconds(shown(&to)), seconds(shown(&directory.join("from"))));
    assert!(fs::symlink_metadata(to.join("fifo")).unwrap().file_type().is_fifo());
    assert_eq!(fs::metadata(to.join("a/b/file")).unwrap().permissions().mode() & 0o7777, 0o4755);
    assert_eq!(fs::metadata(to.join("a/hard")).unwrap().nlink(), 2);
    fs::remove_dir_all(directory).unwrap();
}

#[test]
fn left_to_tar() {
    let directory = std::env::temp_dir().join(format!("left-{}", std::process::id()));
    let long = "n".repeat(120);
    for script in [
        format!(": >{long}"),
        "truncate -s 1M hole; echo 1 >>hole".into(),
        format!("ln -s {long} link"),
    ] {
        let file = packed(&directory, &script);
        let unpacked = gzip::decompress(&file, MOST).unwrap();
        assert!(archive::entries(&unpacked).is_none(), "{script}");
    }
    let file = packed(&directory, "head -c 3000000 /dev/zero >large");
    assert!(gzip::decompress(&file, MOST).is_none());
    fs::remove_dir_all(directory).unwrap();
}

/// An archive cannot make files through a link, nor outside its directory.
#[test]
fn links_are_not_followed() {
    let directory = std::env::temp_dir().join(format!("links-{}", std::process::id()));
    let mut unpacked =
        gzip::decompress(&packed(&directory, "ln -s /tmp a; mkdir b; echo 1 >b/file"), MOST)
            .unwrap();
    let at = unpacked.windows(8).position(|name| name == b"./b/file").unwrap();
    for name in [b"./a/file", b"../x/fil", b"/tmp/fil"] {
        unpacked[at..at + 8].copy_from_slice(name);
        let to = directory.join("to");
        let _ = fs::remove_dir_all(&to);
        fs::create_dir(&to).unwrap();
        let root = sys::fs::open_dir(rustix::fs::CWD, &to).unwrap();
        assert!(archive::unpack(&root, &archive::entries(&unpacked).unwrap()).is_err());
    }
    fs::remove_dir_all(directory).unwrap();
}

#[test]
fn damaged_files() {
    let directory = std::env::temp_dir().join(format!("damaged-{}", std::process::id()));
    let file = packed(&directory, "seq 1 500 >numbers; head -c 100 /dev/urandom >random");
    let whole = gzip::decompress(&file, MOST);
    assert!(whole.is_some());
    for at in 0..file.len() {
        assert!(gzip::decompress(&file[..at], MOST).is_none());
        let mut damaged = file.clone();
        damaged[at] ^= 0x10;
        // The header's time and system, and bits after the last block, have no effect.
        let found = gzip::decompress(&damaged, MOST);
        assert!(found.is_none() || found == whole, "{at}");
    }
    fs::remove_dir_all(directory).unwrap();
}
