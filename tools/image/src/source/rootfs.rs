//! Root filesystems without an image: a directory, or an archive of one. The image that is made has one layer and the
//! command `/bin/sh`. The same archive always makes the same image.

use super::Source;
use super::archive::Archive;
use crate::digest::Digest;
use crate::error::{Error, Result, ensure};
use crate::oci::{CONFIG, Descriptor, LAYER, Manifest, Platform, parse};
use crate::unpack::Limits;
use serde_json::json;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Command, Stdio};

/// The name of the only file of the archive in which a root filesystem is the only layer.
const LAYER_FILE: &str = "layer";

/// Opens the root filesystem `path`; `-` is an archive on standard input.
///
/// # Errors
/// Those of reading; the file is not an archive, or exceeds `limits`.
pub fn open(path: &Path, platform: &Platform, scratch: &Path, limits: &Limits) -> Result<Source> {
    let mut archive = match path.is_dir() {
        true => pack(path, scratch, limits)?,
        false => Archive::of_layer(LAYER_FILE, path, scratch, limits)?,
    };
    let (layer, size) = archive.hash(LAYER_FILE)?;
    archive.blobs.insert(layer, LAYER_FILE.into());
    let mut config = json!({
        "architecture": platform.architecture,
        "os": platform.os,
        "config": { "Cmd": ["/bin/sh"] },
        "rootfs": { "type": "layers", "diff_ids": [layer] },
        "history": [{ "created_by": "dayfly image import --rootfs" }],
    });
    if let Some(variant) = &platform.variant {
        config["variant"] = json!(variant);
    }
    let config_text = config.to_string().into_bytes();
    let blob = Descriptor::new(CONFIG[0], Digest::of(&config_text), config_text.len() as u64);
    let manifest = Manifest::new(blob, vec![Descriptor::new(LAYER, layer, size)], None);
    let config = parse(&config_text, "the configuration")?;
    Source::made(archive, manifest, config_text, config, Vec::new())
}

/// Packs a directory with tar(1), without what is mounted in it.
fn pack(directory: &Path, scratch: &Path, limits: &Limits) -> Result<Archive> {
    let mut tar = Command::new("tar")
        .args(["--numeric-owner", "--sort=name", "--one-file-system", "--xattrs"])
        .args(["--xattrs-include=user.*", "--xattrs-include=security.capability", "-C"])
        .arg(directory)
        .args(["-c", "."])
        .stdout(Stdio::piped())
        .spawn()
        .map_err(Error::at("execute", "tar"))?;
    let output = tar.stdout.take().map(|pipe| File::from(OwnedFd::from(pipe)));
    let output = output.ok_or_else(|| Error::Unfit("tar has no output".into()))?;
    let archive = Archive::of_output(LAYER_FILE, output, directory, scratch, limits);
    let status = tar.wait().map_err(Error::at("wait for", "tar"))?;
    // If the copy has failed, a signal ends tar.
    ensure!(
        status.success() || status.code().is_none(),
        "tar failed for {}: {status}",
        directory.display()
    );
    archive
}
