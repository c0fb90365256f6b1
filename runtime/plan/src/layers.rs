//! A root filesystem assembled from layers, as steps of the parent.

use rootfs::{Mode, Recipe, Upper};
use spec::IdMapping;

use crate::builder::Builder;
use crate::context::Context;
use crate::idmap;
use crate::namespaces::maps;
use crate::step::ParentStep;

/// Adds the steps that assemble the root filesystem as a detached tree. If the recipe maps ids, the mappings are `ids`
/// or, without `ids`, those of the container's user namespace. In both cases they are written to a separate user
/// namespace, because the container's own user namespace does not exist before the clone.
pub fn compile(
    builder: &mut Builder,
    context: &Context<'_, '_>,
    recipe: &Recipe,
    ids: Option<(&[IdMapping], &[IdMapping])>,
) {
    if recipe.mode == Mode::Copy {
        builder.parent(ParentStep::CopyLayers);
        return;
    }
    let user_namespace = recipe.root.map(|_| {
        let own = || (&*context.linux.uid_mappings, &*context.linux.gid_mappings);
        let (uids, gids) = ids.unwrap_or_else(own);
        idmap::made(builder, maps(uids, gids))
    });
    builder.parent(ParentStep::MapLayers { user_namespace });
    if !recipe.mode.is_attached() {
        builder.parent(ParentStep::OpenLayers);
    }
    if recipe.upper != Upper::None {
        builder.parent(ParentStep::MakeUpper);
    }
    builder.parent(ParentStep::AssembleRootfs);
    if recipe.mode.is_attached() {
        builder.parent(ParentStep::DetachLayers);
    }
}
