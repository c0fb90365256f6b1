//! The images of containers and pods: the test stand's root filesystem as one layer, in an archive like that of `docker save`.

use crate::harness::*;
use crate::runtime;

/// The image of containers.
pub(super) const BOX: &str = "localhost/dayfly-bench:box";
/// The image of pods' own containers, which only wait.
pub(super) const PAUSE: &str = "localhost/dayfly-bench:pause";

/// The timeout of tar.
const DEADLINE: Duration = Duration::from_secs(60);

/// Makes the archive in `directory` and returns its path.
///
/// # Errors
/// No tar(1); a full disk.
pub(super) fn make(root: &Path, directory: &Path) -> Result<PathBuf, Error> {
    let content = directory.join("content");
    fs::create_dir(&content).map_err(Error::at("make", &content))?;
    let layer = content.join("layer.tar");
    tar(root, &layer)?;
    let digest = runtime::hash(&layer).map_err(Error::at("read", &layer))?;
    let arch = if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" };
    let mut images = Vec::new();
    for (file, name, words) in
        [("box.json", BOX, vec!["/bin/sh"]), ("pause.json", PAUSE, vec!["/bin/sleep", "1000000"])]
    {
        let config = json!({
            "architecture": arch, "os": "linux",
            "config": { "Cmd": words, "Env": ["PATH=/bin"] },
            "rootfs": { "type": "layers", "diff_ids": [format!("sha256:{digest}")] },
        });
        write(&content.join(file), &config)?;
        images.push(json!({ "Config": file, "RepoTags": [name], "Layers": ["layer.tar"] }));
    }
    write(&content.join("manifest.json"), &json!(images))?;
    let archive = directory.join("images.tar");
    tar(&content, &archive)?;
    fs::remove_dir_all(&content).map_err(Error::at("remove", &content))?;
    Ok(archive)
}

fn write(file: &Path, document: &Value) -> Result<(), Error> {
    fs::write(file, document.to_string()).map_err(Error::at("write", file))
}

fn tar(directory: &Path, archive: &Path) -> Result<(), Error> {
    let mut command = Command::new("tar");
    command.arg("-C").arg(directory).arg("-cf").arg(archive).arg(".").stdin(Stdio::null());
    process::run(&mut command, DEADLINE)
        .map(drop)
        .map_err(|failure| unfit!("tar {}: {failure}", directory.display()))
}
