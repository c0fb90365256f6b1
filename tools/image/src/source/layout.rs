//! The OCI image layout: a directory with `index.json` and `blobs`, or an archive of one.

use super::archive::Archive;
use super::{Blobs, Source};
use crate::error::{Error, Result};
use crate::oci::{DOCUMENT, Descriptor, FULL_NAME, Index, Platform, REF_NAME, parse};
use crate::reference::Reference;
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Opens the image `tag` of the layout in `directory`.
///
/// # Errors
/// Those of reading; several images match.
pub fn open(directory: &Path, tag: Option<&str>, platform: &Platform) -> Result<Source> {
    let path = directory.join("index.json");
    if !path.exists() {
        return Err(Error::Unfit(format!(
            "{} contains no image: an OCI layout has an index.json",
            directory.display()
        )));
    }
    let mut text = Vec::new();
    File::open(&path)
        .and_then(|file| file.take(DOCUMENT).read_to_end(&mut text))
        .map_err(Error::at("read", &path))?;
    find(Blobs::Layout(directory.to_owned()), &text, directory, tag, platform)
}

/// Opens the image `tag` of the layout in an archive.
///
/// # Errors
/// As [`open`].
pub fn open_archive(
    archive: Archive,
    path: &Path,
    tag: Option<&str>,
    platform: &Platform,
) -> Result<Source> {
    let text = archive.read("index.json")?;
    find(Blobs::Archive(archive), &text, path, tag, platform)
}

fn find(
    blobs: Blobs,
    text: &[u8],
    path: &Path,
    tag: Option<&str>,
    platform: &Platform,
) -> Result<Source> {
    let index: Index = parse(text, &format!("index.json of {}", path.display()))?;
    let chosen = choose(&index, path, tag, platform)?;
    let names = names(chosen, path, tag);
    Source::follow(blobs, chosen, platform, names)
}

/// Returns the entry whose name matches `tag`, or any entry if there is no tag. If several entries match, returns the
/// only one of them for `platform`.
fn choose<'a>(
    index: &'a Index,
    path: &Path,
    tag: Option<&str>,
    platform: &Platform,
) -> Result<&'a Descriptor> {
    let all = &index.manifests;
    let named: Vec<&Descriptor> = match tag {
        Some(tag) => {
            all.iter().filter(|entry| name(entry).is_some_and(|name| is(name, tag))).collect()
        }
        None => all.iter().collect(),
    };
    let fits = |entry: &&&Descriptor| entry.platform.as_ref().is_some_and(|p| platform.takes(p));
    let fitting: Vec<&&Descriptor> = named.iter().filter(fits).collect();
    match (&named[..], &fitting[..]) {
        ([one], _) => Ok(one),
        (_, [one]) => Ok(one),
        _ => {
            let there: Vec<&str> = all.iter().filter_map(name).collect();
            Err(Error::Unfit(match (tag, &there[..]) {
                (_, []) => format!("{} has {} images without names", path.display(), all.len()),
                (Some(tag), there) => {
                    format!("{} has no image {tag}, but {}", path.display(), there.join(", "))
                }
                (None, there) => format!(
                    "{} has several images: add one of :{}",
                    path.display(),
                    there.join(", :")
                ),
            }))
        }
    }
}

fn name(entry: &Descriptor) -> Option<&str> {
    entry.annotations.as_ref()?.get(REF_NAME).map(String::as_str)
}

/// Returns whether `name`, a tag or a full reference, matches the requested tag.
fn is(name: &str, tag: &str) -> bool {
    name == tag || name.rsplit_once(':').is_some_and(|(_, end)| end == tag)
}

/// Returns the name of the image: the full name in the layout. If the layout contains only a tag, the name is the
/// layout's file name without its extensions, with this tag.
fn names(entry: &Descriptor, path: &Path, tag: Option<&str>) -> Vec<Reference> {
    let full = entry.annotations.as_ref().and_then(|all| all.get(FULL_NAME));
    let name = name(entry).or(tag);
    let whole = full.map(String::as_str).or(name.filter(|name| name.contains([':', '/'])));
    if let Some(reference) = whole.and_then(|text| Reference::parse(text).ok()) {
        return vec![reference];
    }
    let file = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let stem = ["zst", "gz", "tar", "oci"].iter().fold(file, |stem, end| {
        stem.strip_suffix(end).and_then(|s| s.strip_suffix('.')).unwrap_or(stem)
    });
    Reference::parse(&format!("{stem}:{}", name.unwrap_or("latest"))).into_iter().collect()
}
