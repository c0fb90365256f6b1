//! Listing images as tables and JSON.

use crate::digest::Digest;
use crate::error::{Error, Result};
use crate::oci::parse;
use crate::store::{Image, Store};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;

fn document(image: &Image, name: &str) -> Result<Value> {
    let path = image.path.join(name);
    let text = fs::read(&path).map_err(Error::at("read", &path))?;
    parse(&text, &path.display().to_string())
}

/// Returns all images with their names, ordered by the first name: `digest`, `names`, `id`, `platform`, `created`,
/// `size` in bytes, `layers`.
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
#[must_use]
pub fn table(images: &[Value]) -> String {
    let mut rows = vec![["NAME", "DIGEST", "LAYERS", "SIZE", "CREATED"].map(str::to_owned)];
    for image in images {
        let text = |member: &str| image[member].as_str().unwrap_or("-").to_owned();
        let short =
            text("digest").trim_start_matches("sha256:").chars().take(12).collect::<String>();
        let created = text("created").chars().take(16).collect::<String>().replace('T', " ");
        let names = image["names"].as_array().map(Vec::as_slice).unwrap_or_default();
        let nameless = [json!("-")];
        for name in if names.is_empty() { &nameless } else { names } {
            rows.push([
                name.as_str().unwrap_or_default().to_owned(),
                short.clone(),
                image["layers"].to_string(),
                size(image["size"].as_u64().unwrap_or_default()),
                created.clone(),
            ]);
        }
    }
    columns(&rows)
}

fn columns<const N: usize>(rows: &[[String; N]]) -> String {
    let width =
        |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..N).map(width).collect();
    let line = |row: &[String; N]| {
        let cells: String =
            row.iter().zip(&widths).map(|(cell, &width)| format!("{cell:width$}  ")).collect();
        cells.trim_end().to_owned() + "\n"
    };
    rows.iter().map(line).collect()
}

/// Formats a number of bytes.
#[must_use]
pub fn size(bytes: u64) -> String {
    let units = ["kB", "MB", "GB", "TB"];
    let mut value = bytes as f64;
    let mut unit = "B";
    for next in units {
        if value < 1000.0 {
            break;
        }
        (value, unit) = (value / 1000.0, next);
    }
    if unit == "B" { format!("{bytes} B") } else { format!("{value:.1} {unit}") }
}

/// Returns all details of an image: those of `ls`, the layers with their directories, the image's documents and the
/// runtime's configuration.
///
/// # Errors
/// Those of reading the store.
pub fn inspect(store: &Store, image: &Image) -> Result<Value> {
    let mut info = document(image, "info.json")?;
    let refs = store.refs()?.into_iter().filter(|(_, digest)| *digest == image.digest);
    info["names"] = refs.map(|(name, _)| json!(name.to_string())).collect();
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

/// Formats the main details as text.
#[must_use]
pub fn summary(info: &Value) -> String {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let words = |value: &Value| {
        let words = value.as_array().map(Vec::as_slice).unwrap_or_default();
        words.iter().map(text).collect::<Vec<_>>().join(" ")
    };
    let process = &info["config"]["process"];
    let mut rows = vec![
        ["names".to_owned(), words(&info["names"])],
        ["digest".to_owned(), text(&info["digest"])],
        ["id".to_owned(), text(&info["id"])],
        ["platform".to_owned(), text(&info["platform"])],
        ["created".to_owned(), text(&info["created"])],
        ["size".to_owned(), size(info["size"].as_u64().unwrap_or_default())],
        ["command".to_owned(), words(&process["args"])],
        ["directory".to_owned(), text(&process["cwd"])],
        ["user".to_owned(), format!("{}:{}", process["user"]["uid"], process["user"]["gid"])],
    ];
    for layer in info["layers"].as_array().into_iter().flatten() {
        let bytes = size(layer["size"].as_u64().unwrap_or_default());
        rows.push(["layer".to_owned(), format!("{} {bytes}", text(&layer["diff_id"]))]);
    }
    columns(&rows)
}
