//! `run IMAGE [COMMAND...]`, as Docker's and Podman's users type it: the same as `run --image IMAGE [COMMAND...]`.
//!
//! What runc accepts keeps its meaning: `run CONTAINER` with a bundle, also in the working directory. For the rest, runc
//! would fail in any case: it has none of the options for images, takes one argument only, and needs a config.json.

use rustix::fs::{Access, access};

use crate::commands::layers;
use crate::definition::options::*;
use crate::definition::{Command, Order};
use crate::option::Opt;
use crate::parser::{Parsed, count_arguments, parse};
use crate::usage::UsageError;

/// Options that say what is run.
const WHAT: [&Opt; 6] = [&BUNDLE, &CONFIG, &IMAGE, &LAYERS, &TEMPLATE, &ROOTFS_MOUNTS];

/// Returns the command line in the form with `--image`, if the words after `run` mean an image of the store.
pub(crate) fn of<'a>(
    command: &'static Command,
    words: &[&'a str],
    parsed: &Result<Parsed<'a>, UsageError<'_>>,
    args: sys::Args,
) -> Option<Parsed<'a>> {
    let says_what = |parsed: &Parsed<'_>| WHAT.iter().any(|option| parsed.values.is_set(option));
    let is_refused = match parsed {
        _ if command.name != "run" => return None,
        Ok(Parsed { values, arguments }) => {
            count_arguments(command, values, arguments.len()).is_err()
        }
        Err(_) => true,
    };
    if parsed.as_ref().is_ok_and(|parsed| !is_refused && says_what(parsed)) {
        return None;
    }
    // All words after the image are the container's command.
    let mut of_image = parse(command.options, Order::OptionsFirst, words).ok()?;
    let values = &of_image.values;
    if says_what(&of_image) || values.is_set(&HELP) || of_image.arguments.is_empty() {
        return None;
    }
    let image = of_image.arguments.remove(0);
    if !OF_IMAGES.iter().copied().flatten().any(|option| of_image.values.is_set(option)) {
        let is_bundle = || access("config.json", Access::EXISTS).is_ok();
        let store = || layers::store(&of_image.values, args).ok();
        let is_stored = || rootfs::image::look_up(&store()?, image).ok();
        if is_bundle() || is_stored().is_none() {
            return None;
        }
    }
    of_image.values.push(&IMAGE, image);
    Some(of_image)
}
