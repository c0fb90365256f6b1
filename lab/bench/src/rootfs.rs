//! A root filesystem with one static busybox.

use crate::base::*;
use std::os::unix::fs::{PermissionsExt, lchown, symlink};

/// The possible paths of the busybox from Debian's busybox-static (or Alpine's).
const BUSYBOX: &[&str] = &["/bin/busybox", "/usr/bin/busybox", "/bin/busybox.static"];

const APPLETS: &[&str] = &["cat", "date", "echo", "ls", "ps", "sh", "sleep", "true"];

const DIRECTORIES: &[&str] =
    &["bin", "dev", "etc", "mnt", "proc", "root", "run", "sys", "tmp", "usr", "var"];

const PASSWD: &str = "root:x:0:0:root:/root:/bin/sh\n";

/// Makes the directory `root` and fills it; everything belongs to the user and group `owner`.
///
/// # Errors
/// No busybox on the host; no permission to write or to change owners.
pub fn make(root: &Path, owner: u32) -> Result<(), Error> {
    let busybox =
        BUSYBOX.iter().map(PathBuf::from).find(|path| path.exists()).ok_or_else(|| {
            unfit!("no busybox for the containers: apt-get install busybox-static")
        })?;
    let mut made = vec![root.to_owned()];
    fs::create_dir_all(root).map_err(Error::at("make", root))?;
    for name in DIRECTORIES {
        let directory = root.join(name);
        fs::create_dir(&directory).map_err(Error::at("make", &directory))?;
        fs::set_permissions(&directory, fs::Permissions::from_mode(0o755))
            .map_err(Error::at("chmod", &directory))?;
        made.push(directory);
    }
    let program = root.join("bin/busybox");
    fs::copy(&busybox, &program).map_err(Error::at("copy busybox to", &program))?;
    for name in APPLETS {
        let link = root.join("bin").join(name);
        symlink("busybox", &link).map_err(Error::at("link", &link))?;
        made.push(link);
    }
    let passwd = root.join("etc/passwd");
    fs::write(&passwd, PASSWD).map_err(Error::at("write", &passwd))?;
    made.extend([program, passwd]);
    for path in made {
        lchown(&path, Some(owner), Some(owner)).map_err(Error::at("chown", &path))?;
    }
    Ok(())
}
