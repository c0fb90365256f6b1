//! Images made by hand: arbitrary archives in an OCI layout.

use crate::bed::Bed;
use crate::runner::runtime_path;
use crate::runtime::Call;
use flate2::write::GzEncoder;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use tar::{EntryType, Header};

/// Returns the path of `dayfly-image`: `DAYFLY_IMAGE`, or the program beside the runtime.
#[must_use]
pub fn program() -> PathBuf {
    let beside = || runtime_path().with_file_name("dayfly-image");
    std::env::var_os("DAYFLY_IMAGE").map_or_else(beside, PathBuf::from)
}

/// Checks that tests of images can run here.
///
/// # Errors
/// The program is missing.
pub fn needed() -> Result<(), String> {
    let path = program();
    if path.exists() {
        return Ok(());
    }
    Err(format!("no {}: make build, or set DAYFLY_IMAGE", path.display()))
}

/// Returns a call of `dayfly-image image` with the bed's store.
///
/// # Panics
/// When the program's path is not UTF-8.
#[must_use]
pub fn call(bed: &Bed, args: &[&str]) -> Call {
    let program = program();
    let store = store(bed);
    let mut all = vec!["image"];
    all.extend(args);
    bed.program(program.to_str().expect("path"), &all)
        .env("DAYFLY_STORE", store.to_str().expect("path"))
}

/// Returns the path of the bed's store.
#[must_use]
pub fn store(bed: &Bed) -> PathBuf {
    bed.dir.join("store")
}

/// Returns the digest of `bytes`: `sha256:` and the hexadecimal digits.
#[must_use]
pub fn digest(bytes: &[u8]) -> String {
    let digits: String = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{digits}")
}

/// An archive that becomes a layer.
#[derive(Default)]
pub struct Layer {
    archive: Vec<u8>,
}

impl Layer {
    /// Returns an empty archive.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an entry with exactly this name, even a name that no regular packer writes.
    ///
    /// # Panics
    /// When the name is longer than the header's field.
    #[must_use]
    pub fn entry(
        mut self,
        kind: EntryType,
        name: &str,
        link: &str,
        mode: u32,
        data: &[u8],
    ) -> Self {
        let mut header = Header::new_ustar();
        header.set_entry_type(kind);
        header.set_mode(mode);
        header.set_uid(0);
        header.set_gid(0);
        header.set_mtime(1_000_000_000);
        header.set_size(data.len() as u64);
        let old = header.as_old_mut();
        old.name[..name.len()].copy_from_slice(name.as_bytes());
        old.linkname[..link.len()].copy_from_slice(link.as_bytes());
        self.header(&mut header, data);
        self
    }

    /// Adds a header and its data. The checksum is the only field of the header that is corrected.
    pub fn header(&mut self, header: &mut Header, data: &[u8]) {
        header.set_cksum();
        self.archive.extend(header.as_bytes());
        self.archive.extend(data);
        self.archive.resize(self.archive.len().next_multiple_of(512), 0);
    }

    /// Adds raw bytes.
    #[must_use]
    pub fn raw(mut self, bytes: &[u8]) -> Self {
        self.archive.extend(bytes);
        self
    }

    /// Adds a file.
    #[must_use]
    pub fn file(self, name: &str, mode: u32, data: &[u8]) -> Self {
        self.entry(EntryType::Regular, name, "", mode, data)
    }

    /// Adds an empty file with this owner.
    #[must_use]
    pub fn owned(mut self, name: &str, uid: u64, gid: u64) -> Self {
        let mut header = Header::new_ustar();
        header.set_path(name).expect("name");
        header.set_mode(0o600);
        header.set_uid(uid);
        header.set_gid(gid);
        header.set_size(0);
        self.header(&mut header, b"");
        self
    }

    /// Adds a device.
    #[must_use]
    pub fn device(mut self, name: &str, kind: EntryType, major: u32, minor: u32) -> Self {
        let mut header = Header::new_ustar();
        header.set_entry_type(kind);
        header.set_path(name).expect("name");
        header.set_mode(0o666);
        header.set_uid(0);
        header.set_gid(0);
        header.set_size(0);
        header.set_device_major(major).expect("major");
        header.set_device_minor(minor).expect("minor");
        self.header(&mut header, b"");
        self
    }

    /// Adds a directory.
    #[must_use]
    pub fn dir(self, name: &str, mode: u32) -> Self {
        self.entry(EntryType::Directory, name, "", mode, b"")
    }

    /// Adds a symbolic link.
    #[must_use]
    pub fn symlink(self, name: &str, target: &str) -> Self {
        // A PAX record holds the target, because the header's own field is short.
        let told = self.pax(&[("linkpath", target.as_bytes())]);
        told.entry(EntryType::Symlink, name, "", 0o777, b"")
    }

    /// Adds a hard link.
    #[must_use]
    pub fn link(self, name: &str, target: &str) -> Self {
        self.entry(EntryType::Link, name, target, 0o644, b"")
    }

    /// Adds PAX records for the next entry.
    #[must_use]
    pub fn pax(self, records: &[(&str, &[u8])]) -> Self {
        let mut text = Vec::new();
        for (key, value) in records {
            let rest = key.len() + value.len() + 3;
            let mut length = rest + 1;
            while length != rest + length.to_string().len() {
                length = rest + length.to_string().len();
            }
            text.extend(format!("{length} {key}=").as_bytes());
            text.extend(*value);
            text.push(b'\n');
        }
        self.entry(EntryType::XHeader, "pax", "", 0o644, &text)
    }

    /// Returns the archive, including its end.
    #[must_use]
    pub fn archive(&self) -> Vec<u8> {
        [&self.archive[..], &[0; 1024]].concat()
    }
}

/// The compression of a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Packing {
    /// gzip
    Gzip,
    /// zstd
    Zstd,
    /// uncompressed
    Plain,
}

impl Packing {
    fn pack(self, archive: &[u8]) -> (Vec<u8>, &'static str) {
        match self {
            Self::Plain => (archive.to_vec(), ""),
            Self::Zstd => (zstd::encode_all(archive, 3).expect("zstd"), "+zstd"),
            Self::Gzip => {
                let mut encoder = GzEncoder::new(Vec::new(), flate2::Compression::fast());
                encoder.write_all(archive).expect("gzip");
                (encoder.finish().expect("gzip"), "+gzip")
            }
        }
    }
}

/// An OCI layout under construction.
pub struct Layout {
    /// The directory of the layout.
    pub dir: PathBuf,
}

impl Layout {
    /// Makes an empty layout in `dir`.
    ///
    /// # Panics
    /// When the directory can't be made.
    #[must_use]
    pub fn new(dir: PathBuf) -> Self {
        fs::create_dir_all(dir.join("blobs/sha256")).expect("make layout");
        fs::write(dir.join("oci-layout"), r#"{"imageLayoutVersion":"1.0.0"}"#).expect("write");
        Self { dir }
    }

    /// Writes a blob and returns its descriptor.
    ///
    /// # Panics
    /// When the blob can't be written.
    #[must_use]
    pub fn blob(&self, kind: &str, bytes: &[u8]) -> Value {
        let digest = digest(bytes);
        fs::write(self.path(&digest), bytes).expect("write blob");
        json!({ "mediaType": kind, "digest": digest, "size": bytes.len() })
    }

    /// Returns the path of the blob with this digest.
    #[must_use]
    pub fn path(&self, digest: &str) -> PathBuf {
        self.dir.join("blobs/sha256").join(digest.trim_start_matches("sha256:"))
    }

    /// Writes an image for amd64 and returns its manifest's descriptor. `process` is the `config` of the image.
    #[must_use]
    pub fn image(&self, layers: &[(Layer, Packing)], process: &Value) -> Value {
        self.image_for("amd64", layers, process)
    }

    /// Writes an image for another architecture.
    #[must_use]
    pub fn image_for(
        &self,
        architecture: &str,
        layers: &[(Layer, Packing)],
        process: &Value,
    ) -> Value {
        let mut blobs = Vec::new();
        let mut ids = Vec::new();
        for (layer, packing) in layers {
            let archive = layer.archive();
            ids.push(digest(&archive));
            let (bytes, suffix) = packing.pack(&archive);
            blobs.push(
                self.blob(&format!("application/vnd.oci.image.layer.v1.tar{suffix}"), &bytes),
            );
        }
        let config = json!({
            "os": "linux", "architecture": architecture, "config": process,
            "rootfs": { "type": "layers", "diff_ids": ids },
        });
        let config = config.to_string();
        let config = self.blob("application/vnd.oci.image.config.v1+json", config.as_bytes());
        let manifest = json!({ "schemaVersion": 2, "config": config, "layers": blobs });
        self.blob("application/vnd.oci.image.manifest.v1+json", manifest.to_string().as_bytes())
    }

    /// Writes the index, which lists these manifests.
    ///
    /// # Panics
    /// When the index can't be written.
    pub fn index(&self, manifests: &[Value]) {
        let index = json!({ "schemaVersion": 2, "manifests": manifests });
        fs::write(self.dir.join("index.json"), index.to_string()).expect("write index");
    }
}

/// Makes a layout with one image of these layers.
#[must_use]
pub fn layout(bed: &Bed, name: &str, layers: Vec<Layer>) -> Layout {
    let layout = Layout::new(bed.dir.join(name));
    let layers: Vec<_> = layers.into_iter().map(|layer| (layer, Packing::Gzip)).collect();
    let image = layout.image(&layers, &json!({ "Cmd": ["/bin/sh"] }));
    layout.index(&[image]);
    layout
}

/// Imports the image of a layout; returns its directory in the store.
///
/// # Panics
/// When the image can't be imported.
#[track_caller]
pub fn import(bed: &Bed, layout: &Layout) -> PathBuf {
    let source = layout.dir.to_str().expect("path");
    call(bed, &["import", source, "--name", "test", "--seccomp", "none"]).run().ok();
    fs::canonicalize(store(bed).join("refs/test:latest")).expect("image")
}

/// Returns the directories of an image's layers, the lowest first.
///
/// # Panics
/// When the image's list of layers is missing.
#[must_use]
pub fn layers(image: &Path) -> Vec<PathBuf> {
    let text = fs::read_to_string(image.join("layers")).expect("layers");
    text.lines().map(PathBuf::from).collect()
}
