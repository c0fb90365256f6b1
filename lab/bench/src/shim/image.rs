//! The images of containers and pods: the test stand's root filesystem as one layer, in an archive of an OCI layout.

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
    let layout = directory.join("layout");
    let blobs = layout.join("blobs/sha256");
    fs::create_dir_all(&blobs).map_err(Error::at("make", &blobs))?;
    let layer = directory.join("layer.tar");
    tar(root, &layer)?;
    let (digest, size) = digest(&layer)?;
    let place = blobs.join(&digest);
    fs::rename(&layer, &place).map_err(Error::at("rename", &layer))?;
    let layers = json!([descriptor("application/vnd.oci.image.layer.v1.tar", &digest, size)]);
    let mut manifests = Vec::new();
    for (name, words) in [(BOX, vec!["/bin/sh"]), (PAUSE, vec!["/bin/sleep", "1000000"])] {
        let arch = if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" };
        let config = json!({
            "architecture": arch, "os": "linux",
            "config": { "Cmd": words, "Env": ["PATH=/bin"] },
            "rootfs": { "type": "layers", "diff_ids": [format!("sha256:{digest}")] },
        });
        let config = blob(&blobs, "application/vnd.oci.image.config.v1+json", &config)?;
        let manifest = json!({
            "schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": config, "layers": layers,
        });
        let mut manifest = blob(&blobs, "application/vnd.oci.image.manifest.v1+json", &manifest)?;
        manifest["annotations"] = json!({ "io.containerd.image.name": name });
        manifests.push(manifest);
    }
    write(&layout.join("index.json"), &json!({ "schemaVersion": 2, "manifests": manifests }))?;
    write(&layout.join("oci-layout"), &json!({ "imageLayoutVersion": "1.0.0" }))?;
    let archive = directory.join("images.tar");
    tar(&layout, &archive)?;
    fs::remove_dir_all(&layout).map_err(Error::at("remove", &layout))?;
    Ok(archive)
}

fn descriptor(kind: &str, digest: &str, size: u64) -> Value {
    json!({ "mediaType": kind, "digest": format!("sha256:{digest}"), "size": size })
}

/// Writes a document to a file that is named after its digest, and returns its descriptor.
fn blob(blobs: &Path, kind: &str, document: &Value) -> Result<Value, Error> {
    let file = blobs.join("document");
    write(&file, document)?;
    let (digest, size) = digest(&file)?;
    fs::rename(&file, blobs.join(&digest)).map_err(Error::at("rename", &file))?;
    Ok(descriptor(kind, &digest, size))
}

fn write(file: &Path, document: &Value) -> Result<(), Error> {
    fs::write(file, document.to_string()).map_err(Error::at("write", file))
}

fn digest(file: &Path) -> Result<(String, u64), Error> {
    let size = fs::metadata(file).map_err(Error::at("stat", file))?.len();
    Ok((runtime::hash(file).map_err(Error::at("read", file))?, size))
}

fn tar(directory: &Path, archive: &Path) -> Result<(), Error> {
    let mut command = Command::new("tar");
    command.arg("-C").arg(directory).arg("-cf").arg(archive).arg(".").stdin(Stdio::null());
    process::run(&mut command, DEADLINE)
        .map(drop)
        .map_err(|failure| unfit!("tar {}: {failure}", directory.display()))
}
