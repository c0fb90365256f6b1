//! The rewrites of a configuration between config.json and the plan, in their order. Nothing else changes a
//! configuration after it is parsed. `dayfly plan` prints those that have an effect.

use alloc::string::ToString;
use alloc::vec::Vec;

use spec::{Spec, Str};
use trace::Phase;

use crate::bundle::Bundle;
use crate::checkpoint::Published;
use crate::create_context::CreateContext;
use crate::notify::{self, Manager};
use crate::options::{CreateOptions, Purpose};
use crate::request::listen_fds;
use crate::template::{self, NamedBy, Template};
use crate::{Error, Store, TemplateUse, layered, placement, snapshot};

/// A rewrite; returns whether it has an effect. It changes the configuration, and adds to the context what it takes or
/// finds on the host for the container.
type Pass = for<'a> fn(&mut CreateContext<'a>) -> Result<bool, Error>;

const PASSES: [(&str, Pass); 8] = [
    ("checkpoint", checkpoint),
    // The options of `run --image`. All others see what they have set.
    ("image", image),
    ("layers", layers),
    ("rootfs-mounts", rootfs_mounts),
    ("template", template),
    ("pin", placement::pin),
    ("pool", placement::pool),
    ("notify-socket", notify_socket),
];

impl<'a> CreateContext<'a> {
    /// Runs the passes over a parsed configuration.
    pub(crate) fn of(
        store: &'a Store,
        options: &'a CreateOptions<'a>,
        bundle: &'a Bundle,
        spec: Spec<'a>,
        purpose: Purpose,
    ) -> Result<Self, Error> {
        let trace = store.trace();
        if options.layered.is_some_and(|layered| layered.stats) && !trace.is_on() {
            trace.turn_on();
        }
        let mut context = Self {
            purpose,
            store,
            trace,
            options,
            bundle,
            spec,
            passes: Vec::new(),
            manager: None,
            extra_env: Vec::new(),
            listen_fds: listen_fds(options.env),
            pooled: None,
            prepared: None,
            snapshot: None,
            template: None,
        };
        for (name, pass) in PASSES {
            if pass(&mut context)? {
                context.passes.push(name);
            }
        }
        Ok(context)
    }
}

/// Finds the checkpoint that an annotation names. A start has looked for one before the passes, and restores it.
fn checkpoint(context: &mut CreateContext<'_>) -> Result<bool, Error> {
    let CreateContext { purpose, options, bundle, ref spec, .. } = *context;
    Ok(purpose == Purpose::Plan && Published::find(spec, &bundle.path, options).is_some())
}

fn image(context: &mut CreateContext<'_>) -> Result<bool, Error> {
    let Some(layered) = context.options.layered else { return Ok(false) };
    let Some(image) = &layered.image else { return Ok(false) };
    image.apply(&mut context.spec, context.options.id, &layered.layers, context.options.warn)?;
    Ok(true)
}

/// Prepares the root filesystem from layers, if the command line lists layers.
fn layers(context: &mut CreateContext<'_>) -> Result<bool, Error> {
    let CreateContext { purpose, store, trace, options, bundle, .. } = *context;
    let Some(layered) = options.layered else { return Ok(false) };
    let spec = &mut context.spec;
    let prepared = trace.work(Phase::Configuration, "prepare layers", &layered.layers, || {
        layered::prepare(store, options, layered, bundle, spec, purpose)
    })?;
    context.prepared = Some(prepared);
    Ok(true)
}

/// Prepares the mounts of a root filesystem, if any are given.
fn rootfs_mounts(context: &mut CreateContext<'_>) -> Result<bool, Error> {
    let CreateContext { purpose, store, trace, options, bundle, .. } = *context;
    let Some((first, below)) = options.rootfs.split_first() else { return Ok(false) };
    let spec = &mut context.spec;
    let snapshot = trace.work(Phase::Configuration, "prepare rootfs", &bundle.path, || {
        snapshot::prepare(store, options, (first, below), bundle, spec, purpose)
    })?;
    context.snapshot = Some(snapshot);
    Ok(true)
}

/// Adds the socket of notifications, if there is a service manager.
fn notify_socket(context: &mut CreateContext<'_>) -> Result<bool, Error> {
    if context.purpose != Purpose::Restore {
        context.manager = Manager::of(context.options.env);
    }
    if context.manager.is_none() {
        return Ok(false);
    }
    let (mount, variable) = notify::socket(context.store.path(), context.options.id)?;
    context.spec.mounts.push(mount);
    context.extra_env.push(variable);
    Ok(true)
}

/// Finds the template that the command line or an annotation names, and puts the container inside it. Without a suitable
/// template, init executes the program. If the container is to become a template, changes its configuration.
fn template(context: &mut CreateContext<'_>) -> Result<bool, Error> {
    let CreateContext { purpose, store, trace, options, bundle, .. } = *context;
    let passes = context.passed_fds() > 0;
    let spec = &mut context.spec;
    let (name, by, args) = match options.template {
        Some(TemplateUse::Become { allowed }) => {
            return template::prepare(spec, options, allowed).map(|()| true);
        }
        Some(TemplateUse::Save { .. }) => {
            return template::prepare(spec, options, None).map(|()| true);
        }
        Some(TemplateUse::From { name, args }) => (Some(name), NamedBy::Option, args),
        Some(TemplateUse::Ignored { args }) => (None, NamedBy::Option, args),
        None if purpose == Purpose::Restore => return Ok(false),
        None => {
            let named = spec.annotations.get(template::ANNOTATION);
            (named.map(|name| &**name), NamedBy::Annotation, &[][..])
        }
    };
    let name = name.map(ToString::to_string);
    add_arguments(spec, args);
    let Some(name) = name else { return Ok(!args.is_empty()) };
    let found = trace.work(Phase::Configuration, "find template container", &name, || {
        Ok::<_, Error>(match passes {
            true => Err("cannot fork a program with descriptors of the caller".into()),
            false => Template::find(store, &name, spec, by, options.cgroup_driver),
        })
    })?;
    match found {
        Ok(template) => {
            template.enter(spec, options.id, &bundle.path);
            context.template = Some(template);
            Ok(true)
        }
        Err(reason) => {
            let now = trace.clock();
            trace.add(Phase::Configuration, "refused by template", &reason, (now, now));
            template::fall_back(options.warn, "template", &name, &reason);
            Ok(!args.is_empty())
        }
    }
}

fn add_arguments<'a>(spec: &mut Spec<'a>, args: &[&'a str]) {
    if let Some(process) = &mut spec.process {
        process.args.extend(args.iter().map(|arg| Str::from(*arg)));
    }
}
