//! Random access to the files of an archive that contains an image.

use super::scratch::{self, From};
use crate::digest::Digest;
use crate::error::{Error, Result};
use crate::oci::DOCUMENT;
use crate::unpack::Limits;
use sha2::{Digest as _, Sha256};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::{Component, Path, PathBuf};

/// The maximum number of files in an image's archive.
const FILES: usize = 100_000;
/// The maximum total length of the files' names, in bytes.
const NAMES: usize = 16 << 20;

/// The archive and the offsets of its files.
#[derive(Debug)]
pub struct Archive {
    file: File,
    path: PathBuf,
    files: BTreeMap<String, Place>,
    /// The file names of blobs, if they differ from the names in an OCI layout (`blobs/sha256/HEX`).
    blobs: BTreeMap<Digest, String>,
}

#[derive(Debug, Clone)]
enum Place {
    /// The file's offset and length.
    At(u64, u64),
    /// A link to another file of the archive. Older Docker versions write such a link for a layer that several images
    /// share.
    Same(String),
}

impl Archive {
    /// Opens the archive `path`; `-` is standard input. Compressed archives and pipes, which allow no random access,
    /// are first written to the directory `scratch`.
    ///
    /// # Errors
    /// Those of reading; the file is not an archive, or exceeds `limits`.
    pub fn open(path: &Path, scratch: &Path, limits: &Limits) -> Result<Self> {
        let from = if path == Path::new("-") {
            From::Pipe(Box::new(io::stdin().lock()))
        } else {
            let file = File::open(path).map_err(Error::at("open", path))?;
            match file.metadata().map_err(Error::at("read", path))?.is_file() {
                true => From::File(file),
                false => From::Pipe(Box::new(file)),
            }
        };
        let shown = if path == Path::new("-") { Path::new("standard input") } else { path };
        let file = scratch::plain(from, shown, scratch, limits)?;
        // The crate's error text contains bytes of the file.
        let files = scan(&file).map_err(|_| scratch::no_archive(shown))?;
        Ok(Self { file, path: shown.to_owned(), files, blobs: BTreeMap::new() })
    }

    /// Returns whether there is a file with that name.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.files.contains_key(name)
    }

    /// Sets the file names of blobs, by digest.
    pub fn name_blobs(&mut self, blobs: BTreeMap<Digest, String>) {
        self.blobs = blobs;
    }

    /// Opens a blob.
    ///
    /// # Errors
    /// The blob does not exist.
    pub fn blob(&self, digest: &Digest) -> Result<Box<dyn Read + Send + '_>> {
        match self.blobs.get(digest) {
            Some(name) => self.open_file(name),
            None => self.open_file(&format!("blobs/sha256/{}", digest.hex())),
        }
    }

    /// Reads a document.
    ///
    /// # Errors
    /// The document does not exist or is too long; those of reading.
    pub fn read(&self, name: &str) -> Result<Vec<u8>> {
        let mut text = Vec::new();
        let reading = Error::at("read", self.path.join(name));
        self.open_file(name)?.take(DOCUMENT + 1).read_to_end(&mut text).map_err(reading)?;
        if text.len() as u64 > DOCUMENT {
            return Err(Error::Unfit(format!("{name} of {} is too long", self.path.display())));
        }
        Ok(text)
    }

    /// Returns the digest and length of a file.
    ///
    /// # Errors
    /// The file does not exist; those of reading.
    pub fn hash(&self, name: &str) -> Result<(Digest, u64)> {
        let mut hash = Sha256::new();
        let mut reader = BufReader::with_capacity(256 << 10, self.open_file(name)?);
        let mut length = 0;
        loop {
            report::interrupt::check()?;
            let bytes = reader.fill_buf().map_err(Error::at("read", self.path.join(name)))?;
            if bytes.is_empty() {
                return Ok((Digest::finish(hash), length));
            }
            hash.update(bytes);
            length += bytes.len() as u64;
            let count = bytes.len();
            reader.consume(count);
        }
    }

    fn open_file(&self, name: &str) -> Result<Box<dyn Read + Send + '_>> {
        let (at, left) = self.place(name)?;
        Ok(Box::new(Part { file: &self.file, at, left }))
    }

    /// Returns the offset of a file in the archive and its length.
    ///
    /// # Errors
    /// The file does not exist.
    pub fn place(&self, name: &str) -> Result<(u64, u64)> {
        let mut name = name;
        for _ in 0..8 {
            match self.files.get(name) {
                Some(Place::At(offset, length)) => return Ok((*offset, *length)),
                Some(Place::Same(other)) => name = other,
                None => break,
            }
        }
        Err(Error::Unfit(format!("{} has no {name}", self.path.display())))
    }
}

/// A part of a file.
struct Part<'a> {
    file: &'a File,
    at: u64,
    left: u64,
}

impl Read for Part<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = buffer.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
        let count = self.file.read_at(&mut buffer[..length], self.at)?;
        if count == 0 && length > 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.at += count as u64;
        self.left -= count as u64;
        Ok(count)
    }
}

/// A reader that limits the number of bytes read between two seeks. The crate `tar` seeks over the contents of each
/// entry, and reads the headers between them into memory.
struct Headers<'a> {
    file: &'a File,
    read: u64,
}

impl Read for Headers<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read(buffer)?;
        self.read += count as u64;
        if self.read > DOCUMENT {
            return Err(io::Error::other("the archive has too long a header"));
        }
        Ok(count)
    }
}

impl Seek for Headers<'_> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.read = 0;
        self.file.seek(to)
    }
}

/// Returns the offsets of the files in an archive.
fn scan(mut file: &File) -> io::Result<BTreeMap<String, Place>> {
    file.rewind()?;
    let (mut files, mut names) = (BTreeMap::new(), 0);
    let headers = Headers { file, read: 0 };
    for entry in tar::Archive::new(headers).entries_with_seek()? {
        let entry = entry?;
        let Some(name) = normal(&entry.path()?) else { continue };
        let place = match entry.header().entry_type() {
            tar::EntryType::Regular | tar::EntryType::Continuous => {
                Place::At(entry.raw_file_position(), entry.size())
            }
            tar::EntryType::Symlink | tar::EntryType::Link => {
                let symbolic = entry.header().entry_type() == tar::EntryType::Symlink;
                let Some(target) = entry.link_name()? else { continue };
                let base = Path::new(&name).parent().filter(|_| symbolic).unwrap_or(Path::new(""));
                let Some(target) = normal(&base.join(target)) else { continue };
                Place::Same(target)
            }
            _ => continue,
        };
        names += name.len() + if let Place::Same(target) = &place { target.len() } else { 0 };
        files.insert(name, place);
        if files.len() > FILES || names > NAMES {
            return Err(io::Error::other("the archive has too many files for one with an image"));
        }
    }
    Ok(files)
}

/// Returns the name with `.` and `..` resolved, and without a leading slash; `None` if the name leads out of the
/// archive or is not UTF-8.
fn normal(path: &Path) -> Option<String> {
    let mut parts = Vec::new();
    for part in path.components() {
        match part {
            Component::Normal(part) => parts.push(part.to_str()?),
            Component::ParentDir => {
                parts.pop()?;
            }
            Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
        }
    }
    Some(parts.join("/"))
}
