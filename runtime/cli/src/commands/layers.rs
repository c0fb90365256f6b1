//! Options of `create` and `run` for root filesystems from layers.

use ::spec::word;
use container::{LayeredOptions, UserNamespace};
use rootfs::Mode;
use rootfs::ids::Config;

use super::network::Asked;
use super::*;

/// The directories for a root filesystem from layers, and the container's network, as the command line and the
/// environment specify them.
pub struct Places {
    store: String,
    leases: String,
    network: Asked,
}

impl Places {
    /// Returns the settings, or `None` if the command line does not request layers.
    pub fn of(invocation: &Invocation<'_>) -> Result<Option<Self>, Failure> {
        let values = invocation.values;
        if !values.is_set(&IMAGE) && !values.is_set(&LAYERS) {
            return refuse_alone(invocation).map(|()| None);
        }
        let store = store(values, invocation.args)?;
        let network = match values.is_set(&IMAGE) {
            true => Asked::of(invocation)?,
            false => Asked::None,
        };
        Ok(Some(Self { store, leases: leases(invocation)?, network }))
    }

    /// Returns the options for the root filesystem from layers.
    pub fn layered<'a>(
        &'a self,
        invocation: &Invocation<'a>,
    ) -> Result<LayeredOptions<'a>, Failure> {
        let values = invocation.values;
        let image = match values.text(&IMAGE) {
            Some(reference) => {
                let found = rootfs::image::look_up(&self.store, reference)
                    .map_err(|error| not_found(error, &self.store, reference))?;
                if let Some(remark) = found.remark(reference) {
                    (invocation.warn.print)(&remark);
                }
                Some(image_options::image(invocation, found, self.network.network())?)
            }
            None => refuse_without_image(invocation).map(|()| None)?,
        };
        let layers = match (&image, values.text(&LAYERS)) {
            (Some(image), None) => format!("{}/layers", image.directory),
            (None, Some(file)) => container::absolute(file)?,
            (None, None) => return Err(Failure::new("--image REF: REF is empty")),
            _ => return Err(Failure::new("--layers FILE and --image REF: use only one of them")),
        };
        if image.is_some() && values.is_set(&BUNDLE) {
            return Err(Failure::new("--image REF replaces the bundle: leave out --bundle"));
        }
        if values.is_set(&EPHEMERAL_SIZE) && !values.flag(&EPHEMERAL) {
            return Err(Failure::new("--ephemeral-size needs --ephemeral"));
        }
        let ids = Config::default();
        Ok(LayeredOptions {
            user_namespace: user_namespace(values.text(&USERNS))?,
            mode: mode(values)?,
            ephemeral: values.flag(&EPHEMERAL),
            size: values.text(&EPHEMERAL_SIZE).map(bytes).transpose()?,
            store: &self.store,
            leases: &self.leases,
            ids: Config {
                user: invocation.env("DAYFLY_SUBID_USER"),
                subuid: invocation.env("DAYFLY_SUBUID").unwrap_or(ids.subuid),
                subgid: invocation.env("DAYFLY_SUBGID").unwrap_or(ids.subgid),
            },
            stats: values.flag(&ROOTFS_STATS),
            layers,
            image,
        })
    }
}

/// Adds the name of the image that was probably meant.
fn not_found(error: rootfs::Error, store: &str, reference: &str) -> Failure {
    let names = rootfs::image::names_of(store);
    let latest = names.iter().filter_map(|name| name.strip_suffix(":latest"));
    let all = names.iter().map(String::as_str).chain(latest);
    let last = all.clone().filter_map(|name| Some(name.rsplit_once('/')?.1));
    match (&error, word::nearest(reference, all.chain(last))) {
        (rootfs::Error::NoImage { alike, .. }, Some(meant)) if alike.is_empty() => {
            failure!("no image {reference} in {store}; did you mean {meant}?")
        }
        _ => error.into(),
    }
}

/// Returns the directory of the image store.
pub fn store(values: &Values<'_>, args: sys::Args) -> Result<String, Failure> {
    let env = |name: &str| args.env(name).filter(|text| !text.is_empty());
    match values.text(&STORE).or_else(|| env("DAYFLY_STORE")) {
        Some(path) => Ok(container::absolute(path)?),
        None => rootfs::places::store(env).map_err(Failure::new),
    }
}

/// Returns the directory in which the id ranges in use are recorded.
pub fn leases(invocation: &Invocation<'_>) -> Result<String, Failure> {
    match invocation.env("DAYFLY_IDS") {
        Some(path) => Ok(container::absolute(path)?),
        None => Ok(rootfs::places::leases(|name| invocation.env(name))),
    }
}

/// Refuses options that are valid only with layers or an image. Called if the command line requests
/// neither.
fn refuse_alone(invocation: &Invocation<'_>) -> Result<(), Failure> {
    const OF_LAYERS: [&Opt; 6] =
        [&STORE, &USERNS, &EPHEMERAL, &EPHEMERAL_SIZE, &ROOTFS_STATS, &ROOTFS_MODE];
    // `--rootfs-mode`, the last of these options, is also valid with `--rootfs-mounts`.
    let count = OF_LAYERS.len() - usize::from(invocation.values.is_set(&ROOTFS_MOUNTS));
    match OF_LAYERS.iter().take(count).find(|option| invocation.values.is_set(option)) {
        None => refuse_without_image(invocation),
        Some(option) => Err(failure!("--{} needs --layers or --image", option.long)),
    }
}

fn refuse_without_image(invocation: &Invocation<'_>) -> Result<(), Failure> {
    let values = invocation.values;
    let is_named = |option: &&Opt| option.long == CONTAINER_NAME.long && values.is_set(&TEMPLATE);
    match OF_IMAGES
        .iter()
        .copied()
        .flatten()
        .find(|option| values.is_set(option) && !is_named(option))
    {
        None => Ok(()),
        Some(option) => Err(failure!("--{} needs --image", option.long)),
    }
}

fn user_namespace(text: Option<&str>) -> Result<UserNamespace, Failure> {
    match text {
        None => Ok(UserNamespace::Configured),
        Some("auto") => Ok(UserNamespace::Auto),
        Some("shared") => Ok(UserNamespace::Shared),
        Some("host") => Ok(UserNamespace::Host),
        Some(other) => Err(failure!("--userns {other}: must be auto, shared or host")),
    }
}

/// Returns the mode in which the root filesystem is assembled.
pub fn mode(values: &Values<'_>) -> Result<Option<Mode>, Failure> {
    let Some(name) = values.text(&ROOTFS_MODE).filter(|name| *name != "auto") else {
        return Ok(None);
    };
    let names = || Mode::ALL.map(Mode::name).join(", ");
    let mode = Mode::parse(name);
    mode.map(Some).ok_or_else(|| failure!("--rootfs-mode {name}: must be auto, {}", names()))
}

fn bytes(text: &str) -> Result<u64, Failure> {
    let size = size::parse(text).map_err(Failure::new)?;
    u64::try_from(size).map_err(|_| failure!("invalid size: '{text}'"))
}

/// Returns a new random id, for a container that was not given an id.
pub fn new_id() -> Result<String, Failure> {
    let mut bytes = [0u8; 8];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())
        .context("getrandom", "")?;
    Ok(format!("{:016x}", u64::from_ne_bytes(bytes)))
}
