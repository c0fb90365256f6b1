//! The commands of `dayfly image`.

use crate::error::{Error, Result, ensure, printable, unfit, warn};
use crate::export::export;
use crate::import::{self, Imported};
use crate::list;
use crate::oci::Platform;
use crate::options::store::StoreOptions;
use crate::options::{
    Bringing, Compression, Export, Gc, History, ImageCommand, Import, Inspect, Load, Ls, Pull, Rm,
    Save, Tag,
};
use crate::reference::Reference;
use crate::rootfs;
use crate::source::{Blobs, Source};
use crate::store::{Freed, Store};
use ::rootfs::MOST_LAYERS;
use report::Format;
use report::count::counted;
use std::io::{self, IsTerminal, Write};

/// Executes a command.
///
/// # Errors
/// Those of the command.
pub fn execute(command: ImageCommand) -> Result<()> {
    match command {
        ImageCommand::Import(options) => import(&options),
        ImageCommand::Load(options) => load(options),
        ImageCommand::Pull(mut options) => {
            options.bringing.quiet(options.quiet);
            pull(&options)
        }
        ImageCommand::Tag(options) => tag(&options),
        ImageCommand::Save(options) => save(options),
        ImageCommand::History(options) => history(&options),
        ImageCommand::Ls(options) => ls(&options),
        ImageCommand::Inspect(options) => inspect(&options),
        ImageCommand::Rm(options) => rm(&options),
        ImageCommand::Gc(options) => gc(&options),
        ImageCommand::Export(options) => export(&open_existing(&options.store)?, &options),
    }
}

/// Opens the store that the options name.
///
/// # Errors
/// Those of creating the store.
pub fn open(options: &StoreOptions) -> Result<Store> {
    Store::open(&options.directory()?)
}

/// Opens the store that the options name, for a command that adds nothing to it.
///
/// # Errors
/// [`Error::NoStore`].
fn open_existing(options: &StoreOptions) -> Result<Store> {
    Store::existing(&options.directory()?)
}

/// Opens the store that the options name. Returns `None` if the options name no store and the default store does not
/// exist yet. The default store then counts as empty.
///
/// # Errors
/// [`Error::NoStore`], for a store that was named.
fn open_or_empty(options: &StoreOptions) -> Result<Option<Store>> {
    match open_existing(options) {
        Err(Error::NoStore(_)) if options.is_default() => Ok(None),
        store => store.map(Some),
    }
}

fn print(text: &str) -> Result<()> {
    match io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => result.map_err(Error::at("write", "standard output")),
    }
}

fn import(options: &Import) -> Result<()> {
    let store = open(&options.bringing.store)?;
    let scratch = store.work()?;
    let platform = platform(&options.bringing)?;
    let limits = &options.bringing.limits;
    let open = if options.rootfs { Source::rootfs } else { Source::local };
    let source = open(&options.source, &platform, scratch.path(), limits)?;
    let names: Vec<String> = options.other_name.iter().chain(&options.name).cloned().collect();
    bring(&store, &source, &names, &options.bringing)
}

fn load(mut options: Load) -> Result<()> {
    ensure!(
        options.input != "-" || !io::stdin().is_terminal(),
        "standard input is a terminal: name an archive with --input FILE"
    );
    options.bringing.quiet(options.quiet);
    import(&Import {
        source: options.input,
        other_name: None,
        name: Vec::new(),
        rootfs: false,
        bringing: options.bringing,
    })
}

fn tag(options: &Tag) -> Result<()> {
    let store = open_existing(&options.store)?;
    let names: Result<Vec<Reference>> =
        options.names.iter().map(|name| Reference::parse(name)).collect();
    let names = names?;
    let _rely = store.rely(options.waiting.wait)?;
    let image = store.find_named(&options.image)?.image;
    names.iter().try_for_each(|name| store.set_ref(name, image.digest))
}

fn save(options: Save) -> Result<()> {
    let Save { image, output, store, waiting, format } = options;
    ensure!(
        output.as_os_str() != "-" || !io::stdout().is_terminal(),
        "standard output is a terminal: name a file with --output FILE"
    );
    let compress = Compression::Gzip;
    let format = Some(format);
    let export = Export { image, destination: output, store, waiting, format, compress };
    self::export(&open_existing(&export.store)?, &export)
}

fn history(options: &History) -> Result<()> {
    let store = open_existing(&options.store)?;
    let history = list::history(&store.find_named(&options.image)?.image)?;
    match options.format {
        Format::Table => print(&list::history_table(&history, options.no_trunc)),
        Format::Json => print(&format!("{:#}\n", serde_json::Value::from(history))),
    }
}

fn pull(options: &Pull) -> Result<()> {
    let store = open(&options.bringing.store)?;
    // skopeo and Podman write this prefix.
    let text = options.reference.strip_prefix("docker://").unwrap_or(&options.reference);
    let reference = Reference::parse(text)?;
    let source = Source::pull(&reference, &platform(&options.bringing)?, &options.access)?;
    bring(&store, &source, &options.name, &options.bringing)
}

fn platform(options: &Bringing) -> Result<Platform> {
    options.platform.as_deref().map_or_else(|| Ok(Platform::host()), Platform::parse)
}

/// Rejects an image whose platform differs from the requested platform. Returns a warning if no platform was requested
/// and the image's platform differs from this host's.
fn other_platform(source: &Source, options: &Bringing) -> Result<Option<String>> {
    let (mut wanted, is) = (platform(options)?, source.config.platform());
    // Image configurations often omit the variant that an index states.
    wanted.variant = wanted.variant.filter(|_| is.variant.is_some());
    if is.architecture.is_empty() || wanted.takes(&is) {
        return Ok(None);
    }
    match options.platform {
        Some(_) => Err(unfit!("there is no image for {wanted}, only one for {is}")),
        None => Ok(Some(format!("the image is for {is}, this host is {wanted}"))),
    }
}

fn bring(store: &Store, source: &Source, names: &[String], options: &Bringing) -> Result<()> {
    let other_platform = other_platform(source, options)?;
    let is_named = !names.is_empty();
    let names: Result<Vec<Reference>> = names.iter().map(|name| Reference::parse(name)).collect();
    let Imported { image, names, moved, unpacked, layers, losses } =
        import::import(store, source, &names?, options)?;
    let too_many = (layers > MOST_LAYERS).then(|| {
        format!(
            "no container can use it: it has {layers} layers, the kernel supports {MOST_LAYERS}"
        )
    });
    // There is no warning if the user gave the name, or if the name is a registry's tag: such names are expected to
    // move to another image.
    let is_chosen = is_named || matches!(source.blobs, Blobs::Registry(_));
    let moved = moved.iter().filter(|_| !is_chosen).map(|(name, old)| {
        format!(
            "{name} was the name of another image until now, {old}; --name gives this image another name"
        )
    });
    for sentence in other_platform.into_iter().chain(losses).chain(too_many).chain(moved) {
        warn(&sentence);
    }
    let names: Vec<String> = names.iter().map(ToString::to_string).collect();
    let layers = counted(layers, "layer");
    print(&format!("{} {}: {layers}, {unpacked} unpacked\n", names.join(" "), image.digest))
}

fn ls(options: &Ls) -> Result<()> {
    let images = match open_or_empty(&options.store)? {
        Some(store) => list::images(&store)?,
        None => Vec::new(),
    };
    if options.quiet {
        let digests = images.iter().filter_map(|image| image["digest"].as_str());
        return print(&digests.map(|digest| format!("{digest}\n")).collect::<String>());
    }
    match options.format {
        Format::Table => print(&list::table(&images)),
        Format::Json => print(&format!("{:#}\n", serde_json::Value::from(images))),
    }
}

fn inspect(options: &Inspect) -> Result<()> {
    let store = open_existing(&options.store)?;
    let info = list::inspect(&store, &store.find_named(&options.image)?.image)?;
    match options.format {
        Format::Table => print(&list::summary(&info)),
        Format::Json => print(&format!("{info:#}\n")),
    }
}

fn rm(options: &Rm) -> Result<()> {
    let store = match options.force {
        true => open_or_empty(&options.store)?,
        false => Some(open_existing(&options.store)?),
    };
    let Some(store) = store else { return report(Freed::default()) };
    let refs = store.refs()?;
    let mut gone: Vec<Reference> = Vec::new();
    // Check that all images exist before the first one is removed.
    for text in &options.images {
        let found = match store.find_named(text) {
            Err(Error::NoImage(_)) if options.force => continue,
            found => found?,
        };
        let one = refs.iter().filter(|(name, _)| Some(name) == found.name.as_ref());
        let all = refs.iter().filter(|(_, digest)| *digest == found.image.digest);
        // A name given by the user removes only that name; a digest removes all names of the image.
        let names: Vec<_> =
            if one.clone().next().is_some() { one.collect() } else { all.collect() };
        gone.extend(names.into_iter().map(|(name, _)| name.clone()));
    }
    gone.sort_by_key(ToString::to_string);
    gone.dedup();
    for name in gone {
        // Another command may have removed the name meanwhile.
        if store.remove_ref(&name)? {
            print(&format!("removed {name}\n"))?;
        }
    }
    let claim = match store.try_claim()? {
        // The store's lock is held by a command that removes objects. That command finishes soon, but may have read the
        // names before this command removed some.
        None if store.holder().is_some_and(|holder| holder.removes) => {
            store.claim_within(options.waiting.wait)?
        }
        claim => claim,
    };
    match claim {
        Some(claim) => report(store.collect(&claim)?),
        // The names are removed, as requested.
        None => print("the store is in use: \"dayfly image gc\" removes the layers later\n"),
    }
}

fn gc(options: &Gc) -> Result<()> {
    let Some(store) = open_or_empty(&options.store)? else { return report(Freed::default()) };
    let claim = match store.try_claim()? {
        Some(claim) => claim,
        None => {
            let who = store.holder().map_or_else(String::new, |holder| format!(": {holder}"));
            eprintln!("waiting for an import to end{}", printable(&who));
            store.claim(options.waiting.wait)?
        }
    };
    // Directories of killed containers keep images in use.
    let mut left = rootfs::Left::default();
    rootfs::collect_containers(store.root(), &mut left)?;
    let rootfs::Left { directories, mounts } = left;
    if directories > 0 {
        let (directories, mounts) = (counted(directories, "directory"), counted(mounts, "mount"));
        print(&format!("{directories} of containers and {mounts} removed\n"))?;
    }
    report(store.collect(&claim)?)
}

fn report(freed: Freed) -> Result<()> {
    let Freed { images, layers, bytes } = freed;
    let (images, layers) = (counted(images, "image"), counted(layers, "layer"));
    print(&format!("{images} and {layers} removed, {} freed\n", list::size(bytes)))
}
