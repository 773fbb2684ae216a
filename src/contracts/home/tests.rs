use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::PathBuf;

use super::*;
use crate::model::entity::{Preset, ProviderKind};

struct World {
    root: tempfile::TempDir,
    paths: Paths,
    settings: AgentSettings,
}

impl World {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let paths = Paths::beneath(&root.path().canonicalize().unwrap());
        paths.create().unwrap();
        let settings = AgentSettings { trust: Trust::Main, ..AgentSettings::named("Main".to_owned()) };
        Self { root, paths, settings }
    }

    fn data(&self, name: &str) -> PathBuf {
        self.paths.data().join(name)
    }

    fn put(&self, name: &str, text: &str) -> PathBuf {
        let path = self.data(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    fn text(&self, name: &str) -> String {
        fs::read_to_string(self.data(name)).unwrap()
    }

    fn try_prepare(&self, place: AgentHome) -> Result<Prepared, Error> {
        prepare(&self.paths, &Wanted { folder: "main", settings: &self.settings, place })
    }

    fn prepare(&self) -> Prepared {
        self.try_prepare(AgentHome::Host).unwrap()
    }

    /// A file of the host that no preparation may touch.
    fn treasure(&self) -> PathBuf {
        let path = self.root.path().join("treasure");
        fs::write(&path, "precious").unwrap();
        path
    }

    fn links(&self) -> Vec<String> {
        let entries = fs::read_dir(self.data("homes/main/.claude/skills")).unwrap();
        let mut names: Vec<_> = entries.map(|e| e.unwrap().file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }
}

/// Everything below a directory: path -> kind and modification time.
fn look(path: &Path) -> BTreeMap<PathBuf, (u64, i64, i64)> {
    let mut all = BTreeMap::new();
    for entry in fs::read_dir(path).unwrap() {
        let path = entry.unwrap().path();
        let found = path.symlink_metadata().unwrap();
        all.insert(path.clone(), (found.ino(), found.mtime(), found.mtime_nsec()));
        if found.is_dir() {
            all.extend(look(&path));
        }
    }
    all
}

#[test]
fn a_new_agent_finds_its_files() {
    let mut world = World::new();
    world.settings.instructions = Some("Be brief.".to_owned());
    world.put("skills/web/instructions.md", "Use the web.\n");
    world.put("skills/web/SKILL.md", "---\n");
    world.put("groups/global/CLAUDE.md", "for all");
    world.put("groups/CLAUDE.md", "for main");
    let prepared = world.prepare();
    assert_eq!(prepared.left_out, Vec::<String>::new());
    assert_eq!(world.text("groups/main/CLAUDE.local.md"), "Be brief.");
    assert_eq!(
        world.text("groups/main/CLAUDE.md"),
        "<!-- Composed at spawn — do not edit. Edit CLAUDE.local.md for per-group content. -->\n\
         @./.claude-shared.md\n\
         @./.claude-fragments/module-agents.md\n\
         @./.claude-fragments/module-core.md\n\
         @./.claude-fragments/module-interactive.md\n\
         @./.claude-fragments/module-scheduling.md\n\
         @./.claude-fragments/module-self-mod.md\n\
         @./.claude-fragments/skill-web.md\n\
         @./CLAUDE.local.md\n"
    );
    assert_eq!(world.text("groups/main/.claude-fragments/skill-web.md"), "Use the web.\n");
    assert_eq!(
        world.text("homes/main/.claude/settings.json"),
        "{\n  \"env\": {\n    \"CLAUDE_CODE_EXPERIMENTAL_AGENT_TEAMS\": \"1\",\n    \
         \"CLAUDE_CODE_ADDITIONAL_DIRECTORIES_CLAUDE_MD\": \"1\",\n    \"CLAUDE_CODE_DISABLE_AUTO_MEMORY\": \"0\"\n  }\n}\n"
    );
    assert_eq!(fs::read_link(world.data("homes/main/.claude/skills/web")).unwrap(), world.data("skills/web"));
    let seen: Vec<_> = prepared.mounts.iter().map(|m| (m.target.to_str().unwrap(), m.access)).collect();
    let (ro, rw) = (Access::ReadOnly, Access::ReadWrite);
    assert_eq!(seen, [(GLOBAL, ro), (TRUSTED, rw), (PROJECT, ro), (APP_SKILLS, ro)]);
    assert!(prepared.mounts.iter().all(|mount| mount.source.exists()), "{prepared:?}");
    let private = |name: &str| fs::metadata(world.data(name)).unwrap().permissions().mode() & 0o777;
    assert_eq!((private("homes/main/.claude"), private("homes/main/.claude/settings.json")), (0o700, 0o600));
}

#[test]
fn trust_decides_what_is_shared() {
    let mut world = World::new();
    world.put("groups/CLAUDE.md", "for main");
    let mut targets = |trust| {
        world.settings.trust = trust;
        world.prepare().mounts.into_iter().map(|m| m.target.display().to_string()).collect::<Vec<_>>()
    };
    assert_eq!(targets(Trust::Untrusted), Vec::<String>::new());
    assert_eq!(targets(Trust::Trusted), [TRUSTED]);
    assert_eq!(targets(Trust::Main), [TRUSTED, PROJECT]);
}

#[test]
fn the_second_time_nothing_is_written() {
    let world = World::new();
    world.put("skills/web/instructions.md", "Use the web.\n");
    world.prepare();
    let before = (look(&world.data("groups")), look(&world.data("homes")));
    std::thread::sleep(std::time::Duration::from_millis(20));
    world.prepare();
    assert_eq!(before, (look(&world.data("groups")), look(&world.data("homes"))));
}

#[test]
fn a_skill_that_is_not_selected_any_more_goes() {
    let mut world = World::new();
    for name in ["web", "mail"] {
        world.put(&format!("skills/{name}/instructions.md"), name);
    }
    world.prepare();
    assert_eq!(world.links(), ["mail", "web"]);
    world.put("homes/main/.claude/skills/own/SKILL.md", "the agent's");
    symlink("/somewhere/else", world.data("homes/main/.claude/skills/link")).unwrap();
    world.settings.skills = Skills::Only(vec!["mail".into(), "nosuch".into()]);
    let prepared = world.prepare();
    assert_eq!(world.links(), ["link", "mail", "own"]);
    assert!(prepared.left_out[0].starts_with("skill nosuch: there is no directory"), "{prepared:?}");
    assert!(!world.data("groups/main/.claude-fragments/skill-web.md").exists());
    assert!(!world.text("groups/main/CLAUDE.md").contains("skill-web"));
    world.try_prepare(AgentHome::Container).unwrap();
    let link = fs::read_link(world.data("homes/main/.claude/skills/mail")).unwrap();
    assert_eq!(link, Path::new("/app/skills/mail"), "another runtime has other paths");
    world.settings.skills = Skills::Only(Vec::new());
    world.prepare();
    assert_eq!(world.links(), ["link", "own"]);
}

#[test]
fn names_that_are_none_are_told_and_left_out() {
    use std::os::unix::ffi::OsStrExt as _;
    let world = World::new();
    fs::create_dir_all(world.data("skills")).unwrap();
    fs::create_dir(world.data("skills").join(OsStr::from_bytes(b"bad\xff"))).unwrap();
    fs::create_dir(world.data("skills/.hidden")).unwrap();
    symlink("/etc", world.data("skills/linked")).unwrap();
    world.put("skills/README.md", "not a skill");
    world.prepare();
    let strange = world.data("homes/main/.claude/skills").join(OsStr::from_bytes(b"own\xff"));
    symlink("/nowhere", &strange).unwrap();
    let left_out = world.prepare().left_out;
    assert_eq!(left_out.len(), 3, "{left_out:?}");
    assert!(strange.symlink_metadata().is_ok());
    assert!(left_out.iter().any(|what| what.contains("skill linked: it is a link")), "{left_out:?}");
}

#[test]
fn links_that_an_agent_made_are_not_followed() {
    let world = World::new();
    world.put("skills/web/instructions.md", "Use the web.\n");
    world.prepare();
    let treasure = world.treasure();
    let chest = world.root.path().join("chest");
    fs::create_dir(&chest).unwrap();
    for name in ["groups/main/CLAUDE.md", "groups/main/.claude-shared.md", "groups/main/.claude-fragments/skill-web.md"]
    {
        fs::remove_file(world.data(name)).unwrap();
        symlink(&treasure, world.data(name)).unwrap();
        world.prepare();
        assert!(world.data(name).symlink_metadata().unwrap().is_file(), "{name}");
    }
    for name in ["groups/main/.claude-fragments", "homes/main/.claude/skills", "homes/main/.claude"] {
        fs::remove_dir_all(world.data(name)).unwrap();
        symlink(&chest, world.data(name)).unwrap();
        world.prepare();
        assert!(world.data(name).symlink_metadata().unwrap().is_dir(), "{name}");
    }
    for name in ["homes/main/.claude/settings.json", "groups/main/CLAUDE.local.md"] {
        fs::remove_file(world.data(name)).unwrap();
        symlink(&treasure, world.data(name)).unwrap();
        world.prepare();
        assert_eq!(fs::read_link(world.data(name)).unwrap(), treasure, "{name} is the agent's own");
    }
    assert_eq!(fs::read_to_string(&treasure).unwrap(), "precious");
    assert_eq!(fs::read_dir(&chest).unwrap().count(), 0);
    assert_eq!(world.links(), ["web"]);
}

#[test]
fn what_is_in_the_way_is_kept_and_nothing_stops_the_agent() {
    let world = World::new();
    world.put("groups/main/CLAUDE.md", "what the operator wrote");
    world.put("groups/main/.claude-fragments", "a file");
    world.put("homes/main/.claude/settings.json", "{ malformed");
    world.prepare();
    assert_eq!(world.text("groups/main/CLAUDE.local.md"), "what the operator wrote", "it becomes the memory");
    assert_eq!(world.text("groups/main/saved-1-claude-fragments"), "a file");
    assert_eq!(world.text("homes/main/.claude/settings.json"), "{ malformed", "it is not ours");
    world.put("groups/main/CLAUDE.md", "what the agent wrote");
    world.prepare();
    assert_eq!(world.text("groups/main/saved-1-CLAUDE.md"), "what the agent wrote");
    for name in ["groups/main/CLAUDE.md", "groups/main/.claude-shared.md"] {
        fs::remove_file(world.data(name)).unwrap();
        fs::create_dir_all(world.data(name).join("in/it")).unwrap();
    }
    world.prepare();
    assert!(world.text("groups/main/CLAUDE.md").starts_with("<!-- Composed at spawn"));
    assert!(world.data("groups/main/saved-2-CLAUDE.md/in/it").is_dir());
}

#[test]
fn sessions_of_one_agent_prepare_side_by_side() {
    let world = World::new();
    for number in 0..20 {
        world.put(&format!("skills/s{number}/instructions.md"), "x");
    }
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| (0..5).for_each(|_| drop(world.prepare())));
        }
    });
    let left = look(&world.data("groups")).into_keys().chain(look(&world.data("homes")).into_keys());
    let left: Vec<_> = left.filter(|path| path.to_string_lossy().contains(".tmp-")).collect();
    assert_eq!(left, Vec::<PathBuf>::new());
    assert_eq!(world.links().len(), 20);
}

#[test]
fn refused_mounts_are_left_out_with_their_reason() {
    let mut world = World::new();
    let mount = |path: &str| ExtraMount { host_path: path.into(), container_path: None, access: Access::ReadWrite };
    world.settings.mounts = vec![mount("~/a"), mount("/etc")];
    let prepared = world.prepare();
    assert_eq!(prepared.left_out.len(), 2);
    assert!(prepared.left_out[0].starts_with("mount ~/a: No mount allowlist configured at /"), "{prepared:?}");
    assert_eq!(prepared.left_out, left_out(&world.paths, &world.settings).unwrap());
    assert!(prepared.mounts.iter().all(|mount| !mount.target.starts_with("/workspace/extra")));
}

#[test]
fn what_the_machine_refuses_is_told_in_clear_words() {
    let world = World::new();
    let readonly = Error::io("write", Path::new("/x"), rustix::io::Errno::ROFS).to_string();
    assert!(readonly.contains("cannot write /x") && readonly.ends_with("must be writable for Hearth"), "{readonly}");
    fs::remove_dir(world.data("groups")).unwrap();
    fs::write(world.data("groups"), "").unwrap();
    let error = world.try_prepare(AgentHome::Host).unwrap_err().to_string();
    assert!(error.contains("groups"), "{error}");
}

/// Most agents read it. One that a person wrote stays.
#[test]
fn agents_of_the_protocol_get_a_file_without_imports() {
    let mut world = World::new();
    world.prepare();
    assert!(!world.data("groups/main/AGENTS.md").exists());
    world.settings.provider = ProviderKind::Acp;
    world.put("skills/notes/SKILL.md", "x");
    world.put("skills/notes/instructions.md", "Take notes.");
    world.prepare();
    let text = world.text("groups/main/AGENTS.md");
    for part in ["Composed at spawn", "Where you are", "`schedule_task`", "Take notes.", "`CLAUDE.local.md` in this"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!text.contains("\n@./"), "{text}");
    world.settings.provider = ProviderKind::Preset(Preset::Gemini);
    world.prepare();
    assert_eq!(world.text("groups/main/GEMINI.md"), text);
    world.settings.provider = ProviderKind::Acp;
    world.put("groups/main/AGENTS.md", "Mine.");
    world.prepare();
    assert_eq!(world.text("groups/main/AGENTS.md"), "Mine.");
    let treasure = world.treasure();
    fs::remove_file(world.data("groups/main/AGENTS.md")).unwrap();
    symlink(&treasure, world.data("groups/main/AGENTS.md")).unwrap();
    world.prepare();
    assert_eq!(fs::read_to_string(treasure).unwrap(), "precious");
}
