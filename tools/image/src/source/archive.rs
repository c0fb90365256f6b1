//! Random access to the files of an archive that contains an image.

use super::{read_up_to, scratch};
use crate::digest::{Digest, Hashed};
use crate::error::{Error, Result, bail, ensure};
use crate::oci::DOCUMENT;
use crate::unpack::Limits;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::fd::AsFd;
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
    pub blobs: BTreeMap<Digest, String>,
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
        let (file, shown) = plain(path, scratch, limits)?;
        // The crate's error text contains bytes of the file.
        let files = scan(&file).map_err(|_| scratch::no_archive(shown))?;
        Ok(Self { file, path: shown.to_owned(), files, blobs: BTreeMap::new() })
    }

    /// Opens an archive that is itself a layer, as the only file of an archive, with this name.
    ///
    /// # Errors
    /// As [`Archive::open`].
    pub fn of_layer(name: &str, path: &Path, scratch: &Path, limits: &Limits) -> Result<Self> {
        let (file, shown) = plain(path, scratch, limits)?;
        Self::of_file(name, file, shown)
    }

    /// Does the same with the output of a program; `path` is used in errors.
    ///
    /// # Errors
    /// As [`Archive::open`].
    pub fn of_output(
        name: &str,
        output: File,
        path: &Path,
        scratch: &Path,
        limits: &Limits,
    ) -> Result<Self> {
        Self::of_file(name, scratch::plain(output, false, path, scratch, limits)?, path)
    }

    fn of_file(name: &str, mut file: File, path: &Path) -> Result<Self> {
        let mut block = [0; scratch::BLOCK];
        let read = file.rewind().and_then(|()| file.read_exact(&mut block));
        if read.is_err() || !scratch::is_header(&block) {
            return Err(scratch::no_archive(path));
        }
        let length = file.metadata().map_err(Error::at("read", path))?.len();
        let files = BTreeMap::from([(name.to_owned(), Place::At(0, length))]);
        Ok(Self { file, path: path.to_owned(), files, blobs: BTreeMap::new() })
    }

    /// Returns whether there is a file with that name.
    pub fn has(&self, name: &str) -> bool {
        self.files.contains_key(name)
    }

    /// Opens a blob.
    ///
    /// # Errors
    /// The blob does not exist.
    pub fn blob(&self, digest: &Digest) -> Result<Box<dyn Read + Send + '_>> {
        let name = self.blobs.get(digest).cloned();
        let name = name.unwrap_or_else(|| format!("blobs/sha256/{}", digest.hex()));
        Ok(Box::new(self.file(&name)?))
    }

    /// Reads a document.
    ///
    /// # Errors
    /// The document does not exist or is too long; those of reading.
    pub fn read(&self, name: &str) -> Result<Vec<u8>> {
        let text = read_up_to(self.file(name)?, DOCUMENT + 1, self.path.join(name))?;
        ensure!(text.len() as u64 <= DOCUMENT, "{name} of {} is too long", self.path.display());
        Ok(text)
    }

    /// Returns the digest and length of a file.
    ///
    /// # Errors
    /// The file does not exist; those of reading.
    pub fn hash(&self, name: &str) -> Result<(Digest, u64)> {
        let (mut file, mut hash) = (self.file(name)?, Hashed::new(io::sink()));
        let mut end = false;
        while !end {
            report::interrupt::check()?;
            let count = io::copy(&mut (&mut file).take(1 << 20), &mut hash);
            end = count.map_err(Error::at("read", self.path.join(name)))? == 0;
        }
        Ok((hash.digest(), hash.length))
    }

    fn file(&self, name: &str) -> Result<Part<'_>> {
        let (at, left) = self.place(name)?;
        Ok(Part { file: &self.file, at, left })
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
        bail!("{} has no {name}", self.path.display())
    }
}

/// Opens the archive `path`, so that it allows random access. Returns its name in errors, too.
fn plain<'a>(path: &'a Path, scratch: &Path, limits: &Limits) -> Result<(File, &'a Path)> {
    let is_stdin = path == Path::new("-");
    let shown = if is_stdin { Path::new("standard input") } else { path };
    let file = match is_stdin {
        true => io::stdin().as_fd().try_clone_to_owned().map(File::from),
        false => File::open(path),
    };
    let file = file.map_err(Error::at("open", shown))?;
    let is_file = file.metadata().map_err(Error::at("read", shown))?.is_file();
    Ok((scratch::plain(file, is_file && !is_stdin, shown, scratch, limits)?, shown))
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

/// A reader that ends after some bytes without a seek. The crate `tar` seeks over the contents of each entry, and reads
/// the headers between them into memory.
struct Headers<'a>(io::Take<&'a File>);

impl Read for Headers<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}

impl Seek for Headers<'_> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.0.set_limit(DOCUMENT);
        self.0.get_mut().seek(to)
    }
}

/// Returns the offsets of the files in an archive.
fn scan(mut file: &File) -> io::Result<BTreeMap<String, Place>> {
    file.rewind()?;
    let (mut files, mut names) = (BTreeMap::new(), 0);
    for entry in tar::Archive::new(Headers(file.take(DOCUMENT))).entries_with_seek()? {
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
