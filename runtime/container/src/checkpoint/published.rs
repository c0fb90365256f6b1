//! Checkpoints that an annotation names: `run` and `create` restore such a container instead of executing its program.

use alloc::format;
use alloc::string::{String, ToString};

use rustix::io::Errno;
use spec::Spec;

use super::images::{Directory, FOR};
use super::options::RestoreOptions;
use super::program;
use super::work::{own_work, remove_work};
use crate::options::CreateOptions;
use crate::template::fall_back;
use crate::{Error, Warn, annotations};

/// The annotation that names the checkpoint of a container.
pub(crate) const ANNOTATION: &str = "run.dayfly.checkpoint";
/// The annotations by which containerd and CRI-O mark the sandbox of a pod, with the value `sandbox`.
const SANDBOX: [&str; 2] =
    ["io.kubernetes.cri.container-type", "io.kubernetes.cri-o.ContainerType"];
/// The directory of the checkpoints that an annotation can name. An environment variable names another.
const PLACE: &str = "/var/lib/dayfly/checkpoints";
const PLACE_VARIABLE: &str = "DAYFLY_CHECKPOINTS";
const LONGEST: usize = 1 << 16;

/// Returns whether an annotation of the configuration names a checkpoint.
pub fn names_checkpoint(spec: &Spec<'_>) -> bool {
    name_in(spec).is_some()
}

fn name_in<'a>(spec: &'a Spec<'_>) -> Option<&'a str> {
    let name = spec.annotations.get(ANNOTATION)?.as_str();
    // The sandbox of a pod has the pod's annotations.
    let is_sandbox = SANDBOX
        .iter()
        .any(|key| spec.annotations.get(*key).is_some_and(|kind| kind.as_str() == "sandbox"));
    Some(name).filter(|name| !name.is_empty() && !is_sandbox)
}

/// A checkpoint that a container's annotation names, and that the container may use.
pub(crate) struct Published {
    images: String,
    work: String,
    has_terminal: bool,
}

impl Published {
    /// Finds the checkpoint that the configuration names, if any. If the container cannot use it, warns, and returns
    /// `None`: the program is executed.
    pub fn find(spec: &Spec<'_>, bundle: &str, options: &CreateOptions<'_>) -> Option<Self> {
        let name = name_in(spec)?;
        match usable(name, spec, options) {
            Ok(images) => Some(Self {
                images,
                work: own_work(bundle),
                has_terminal: spec.process.as_ref().is_some_and(|process| process.terminal),
            }),
            Err(reason) => {
                fall_back(options.warn, "checkpoint", name, &reason);
                None
            }
        }
    }

    /// Returns the options of a restore. Connections are restored as closed ones: several containers may come from these
    /// images.
    pub fn options<'a>(&'a self, create: &CreateOptions<'a>) -> RestoreOptions<'a> {
        let places = (self.images.as_str(), self.work.as_str());
        let options = RestoreOptions::of_engine(create.clone(), places, self.has_terminal);
        RestoreOptions { tcp_close: true, waits: true, ..options }
    }

    /// Removes criu's log after a restore without an error.
    pub fn tidy(&self, warn: Warn<'_>) {
        if let Err(error) = remove_work(&self.work) {
            (warn.record)(&error.to_string());
        }
    }
}

/// Returns the directory of images, or the reason why the container cannot use them.
fn usable(name: &str, spec: &Spec<'_>, options: &CreateOptions<'_>) -> Result<String, String> {
    if spec::validate_id(name).is_err() {
        return Err("has no valid name".into());
    }
    if options.template.is_some() {
        return Err("is not restored in a template, or by one".into());
    }
    let place = options.criu_env.env(PLACE_VARIABLE).filter(|path| path.starts_with('/'));
    let path = format!("{}/{name}", place.unwrap_or(PLACE));
    let images = Directory::open(&path).map_err(|error| match error {
        Error::System(error) if error.errno == Errno::NOENT => format!("does not exist in {path}"),
        error => format!("cannot be used: {error}"),
    })?;
    let allowed = images.read(FOR, LONGEST).unwrap_or_default();
    let allowed = String::from_utf8_lossy(&allowed);
    if allowed.is_empty() || !allowed.lines().all(|line| annotations::has(spec, line)) {
        return Err("is not for this container (\"checkpoint --for\")".into());
    }
    program::find(options.criu_env).map_err(|error| error.to_string())?;
    Ok(path)
}

/// Says for which containers the images are.
pub(super) fn publish(images: &Directory, allowed: &[&str]) -> Result<(), Error> {
    let mut text = allowed.join("\n");
    text.push('\n');
    images.write(FOR, text.as_bytes())
}
