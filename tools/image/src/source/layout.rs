//! The OCI image layout: a directory with `index.json` and `blobs`, or an archive of one.

use super::{Blobs, Source};
use crate::error::{Result, unfit};
use crate::oci::{Descriptor, FULL_NAME, Index, Platform, REF_NAME, parse};
use crate::reference::Reference;
use std::path::Path;

/// Opens the image `tag` of the layout in `blobs`, whose index is `text`. `path` is the directory or the archive.
///
/// # Errors
/// Those of reading; several images match.
pub fn open(
    blobs: Blobs,
    text: &[u8],
    path: &Path,
    tag: Option<&str>,
    platform: &Platform,
) -> Result<Source> {
    let index: Index = parse(text, &format!("index.json of {}", path.display()))?;
    let chosen = choose(&index, path, tag, platform)?;
    let names = names(chosen, path, tag);
    let text = blobs.document(chosen)?;
    Source::follow(blobs, chosen.clone(), text, platform, names)
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
    let is_named = |entry: &&Descriptor| {
        tag.is_none_or(|tag| entry.annotation(REF_NAME).is_some_and(|name| is(name, tag)))
    };
    let named: Vec<&Descriptor> = all.iter().filter(is_named).collect();
    let fits = |entry: &&Descriptor| entry.platform.as_ref().is_some_and(|p| platform.takes(p));
    let fitting: Vec<&Descriptor> = named.iter().copied().filter(fits).collect();
    if let ([one], _) | (_, [one]) = (&named[..], &fitting[..]) {
        return Ok(one);
    }
    let there: Vec<&str> = all.iter().filter_map(|entry| entry.annotation(REF_NAME)).collect();
    let path = path.display();
    Err(match (tag, &there[..]) {
        (_, []) => unfit!("{path} has {} images without names", all.len()),
        (Some(tag), there) => unfit!("{path} has no image {tag}, but {}", there.join(", ")),
        (None, there) => unfit!("{path} has several images: add one of :{}", there.join(", :")),
    })
}

/// Returns whether `name`, a tag or a full reference, matches the requested tag.
fn is(name: &str, tag: &str) -> bool {
    name == tag || name.rsplit_once(':').is_some_and(|(_, end)| end == tag)
}

/// Returns the name of the image: the full name in the layout. If the layout contains only a tag, the name is the
/// layout's file name without its extensions, with this tag.
fn names(entry: &Descriptor, path: &Path, tag: Option<&str>) -> Vec<Reference> {
    let name = entry.annotation(REF_NAME).or(tag);
    let full = entry.annotation(FULL_NAME).or(name.filter(|name| name.contains([':', '/'])));
    if let Some(reference) = full.and_then(|text| Reference::parse(text).ok()) {
        return vec![reference];
    }
    let file = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let stem = [".zst", ".gz", ".tar", ".oci"]
        .iter()
        .fold(file, |stem, end| stem.strip_suffix(end).unwrap_or(stem));
    Reference::parse(&format!("{stem}:{}", name.unwrap_or("latest"))).into_iter().collect()
}
