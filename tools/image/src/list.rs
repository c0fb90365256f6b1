//! Lists images as tables and JSON.

use crate::digest::Digest;
use crate::error::{Result, printable};
use crate::oci::parse;
use crate::store::{Image, Store};
use report::Table;
use report::size::{Units, readable};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The number of characters of a command in the table of a history.
const LONGEST_COMMAND: usize = 60;

fn document(image: &Image, name: &str) -> Result<Value> {
    parse(&image.read(name)?, &image.path.join(name).display().to_string())
}

/// Returns all images, ordered by their first names. Each is an object with the members `digest`, `names`, `id`,
/// `platform`, `created`, `size` (in bytes) and `layers`.
///
/// # Errors
/// Those of reading the store.
pub fn images(store: &Store) -> Result<Vec<Value>> {
    let mut names: BTreeMap<Digest, Vec<String>> = BTreeMap::new();
    for (name, digest) in store.refs()? {
        names.entry(digest).or_default().push(name.to_string());
    }
    let mut all = Vec::new();
    for image in store.images()? {
        let mut info = document(&image, "info.json")?;
        info["names"] = json!(names.remove(&image.digest).unwrap_or_default());
        info["layers"] = json!(info["layers"].as_array().map_or(0, Vec::len));
        all.push(info);
    }
    all.sort_by_key(|info| info["names"][0].as_str().map(str::to_owned));
    Ok(all)
}

/// Formats images as a table with a line per name.
pub fn table(images: &[Value]) -> String {
    let mut table = Table::new(&["NAME", "DIGEST", "LAYERS", "SIZE", "CREATED"]).left(&[0, 1, 4]);
    for image in images {
        let text = |member: &str| image[member].as_str().unwrap_or("-").to_owned();
        let short =
            text("digest").trim_start_matches("sha256:").chars().take(12).collect::<String>();
        let created = text("created").chars().take(16).collect::<String>().replace('T', " ");
        let names = image["names"].as_array().map(Vec::as_slice).unwrap_or_default();
        let nameless = [json!("-")];
        for name in if names.is_empty() { &nameless } else { names } {
            table.row(vec![
                name.as_str().unwrap_or_default().to_owned(),
                short.clone(),
                image["layers"].to_string(),
                size(image["size"].as_u64().unwrap_or_default()),
                created.clone(),
            ]);
        }
    }
    table.to_string()
}

/// Formats a number of bytes in the units in which engines show the sizes of images.
pub fn size(bytes: u64) -> String {
    readable(bytes, Units::Decimal)
}

/// Returns all details of an image: those that `ls` shows, the layers with their directories, the image's documents and
/// the runtime's configuration.
///
/// # Errors
/// Those of reading the store.
pub fn inspect(store: &Store, image: &Image) -> Result<Value> {
    let mut info = document(image, "info.json")?;
    info["names"] = store.names_of(image)?.iter().map(ToString::to_string).collect();
    info["path"] = json!(image.path);
    for layer in info["layers"].as_array_mut().into_iter().flatten() {
        if let Some(name) = layer["directory"].as_str().and_then(Digest::from_hex) {
            layer["directory"] = json!(store.layer(&name));
        }
    }
    info["manifest"] = document(image, "manifest.json")?;
    info["image"] = document(image, "image.json")?;
    info["config"] = document(image, "config.json")?;
    Ok(info)
}

/// Returns the entries of an image's history, the newest first. Each is an object with the members that the image
/// specification describes, such as `created` and `created_by`.
///
/// # Errors
/// Those of reading the store.
pub fn history(image: &Image) -> Result<Vec<Value>> {
    let mut document = document(image, "image.json")?;
    let mut entries = match document["history"].take() {
        Value::Array(entries) => entries,
        _ => Vec::new(),
    };
    entries.reverse();
    Ok(entries)
}

/// Formats entries of a history as a table.
pub fn history_table(entries: &[Value], whole: bool) -> String {
    let mut table = Table::new(&["CREATED", "LAYER", "CREATED BY"]).left(&[0, 1, 2]);
    for entry in entries {
        let text = |member: &str| printable(entry[member].as_str().unwrap_or("-"));
        let created = text("created").chars().take(16).collect::<String>().replace('T', " ");
        let by = text("created_by");
        let by = match whole || by.chars().count() <= LONGEST_COMMAND {
            true => by,
            false => by.chars().take(LONGEST_COMMAND - 1).chain(['…']).collect(),
        };
        let layer = if entry["empty_layer"] == true { "no" } else { "yes" };
        table.row(vec![created, layer.to_owned(), by]);
    }
    table.to_string()
}

/// Formats the main details as text.
pub fn summary(info: &Value) -> String {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let words = |value: &Value| {
        let words = value.as_array().map(Vec::as_slice).unwrap_or_default();
        words.iter().map(text).collect::<Vec<_>>().join(" ")
    };
    let process = &info["config"]["process"];
    let mut table = Table::without_headings().left(&[0, 1]);
    for (name, text) in [
        ("names", words(&info["names"])),
        ("digest", text(&info["digest"])),
        ("id", text(&info["id"])),
        ("platform", text(&info["platform"])),
        ("created", text(&info["created"])),
        ("size", size(info["size"].as_u64().unwrap_or_default())),
        ("command", words(&process["args"])),
        ("directory", text(&process["cwd"])),
        ("user", format!("{}:{}", process["user"]["uid"], process["user"]["gid"])),
    ] {
        table.row(vec![name.to_owned(), text]);
    }
    for layer in info["layers"].as_array().into_iter().flatten() {
        let bytes = size(layer["size"].as_u64().unwrap_or_default());
        table.row(vec!["layer".to_owned(), format!("{} {bytes}", text(&layer["diff_id"]))]);
    }
    table.to_string()
}
