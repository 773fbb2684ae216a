//! The certificate authority of the installation. Only agents trust it, and only for hosts to which secrets are bound.
//!
//! Its key stays the same; its certificate is made again when the hosts change. Agents that were started before trust the
//! earlier certificate, which has the same name and key, so what is issued for its hosts stays valid for them.

use std::collections::HashMap;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rcgen::{
    BasicConstraints, CertificateParams, CidrSubnet, DistinguishedName, DnType, ExtendedKeyUsagePurpose,
    GeneralSubtree, IsCa, Issuer, KeyPair, KeyUsagePurpose, NameConstraints, date_time_ymd,
};
use rustls::ServerConfig;
use rustls::crypto::ring::{default_provider, sign::any_supported_type};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::ResolvesServerCertUsingSni;
use rustls::sign::CertifiedKey;

use super::roots::pem;
use crate::clock;

/// File with the key, in the directory of the authority.
const KEY: &str = "key";
/// File with the certificates that agents trust.
const BUNDLE: &str = "ca-certificates.crt";
/// Longest key in bytes.
const KEY_MAX: u64 = 16 << 10;
/// For how long a host's certificate is valid, and after what time another one is made.
const LEAF: (Duration, Duration) = (Duration::from_secs(7 * 86_400), Duration::from_secs(86_400));
/// For how long the authority's certificate is valid. It is made again by every daemon.
const OWN: Duration = Duration::from_secs(3 * 365 * 86_400);
/// Clocks of agents' containers may be behind.
const BEFORE: Duration = Duration::from_secs(3_600);
/// The name that is permitted if there are no hosts: it never exists.
const NO_HOST: &str = "none.invalid";

/// Why there is no authority, or it issues no certificate.
#[derive(Debug, thiserror::Error)]
pub enum AuthorityError {
    /// A file cannot be read or written.
    #[error("cannot use {}: {source}", path.display())]
    File { path: PathBuf, source: io::Error },
    /// The key is no key.
    #[error("{} is not a key; remove it, and Hearth makes another one: {source}", path.display())]
    Key { path: PathBuf, source: rcgen::Error },
    /// A certificate cannot be made.
    #[error("cannot make a certificate: {0}")]
    Certificate(#[from] rcgen::Error),
    /// TLS cannot be set up.
    #[error("cannot set up TLS: {0}")]
    Tls(#[from] rustls::Error),
}

/// Issues certificates for hosts.
pub(super) struct Authority {
    directory: PathBuf,
    /// The text of the certificates that the system trusts.
    system: String,
    state: Mutex<State>,
}

struct State {
    issuer: Issuer<'static, KeyPair>,
    /// The key of all hosts' certificates. It is never written to a disk.
    leaf_key: KeyPair,
    hosts: Vec<String>,
    leaves: HashMap<String, Leaf>,
}

struct Leaf {
    config: Arc<ServerConfig>,
    /// When it was made, in time since 1970.
    made: Duration,
}

impl Authority {
    /// Reads the key from a directory, or creates it. No agent sees the directory.
    ///
    /// # Errors
    /// [`AuthorityError`] if there is no key, or the bundle cannot be written.
    pub(super) fn open(directory: &Path, system: String, hosts: Vec<String>) -> Result<Self, AuthorityError> {
        match DirBuilder::new().mode(0o700).create(directory) {
            Err(source) if source.kind() != io::ErrorKind::AlreadyExists => {
                return Err(AuthorityError::File { path: directory.to_owned(), source });
            }
            _ => {}
        }
        let failed = |source| AuthorityError::File { path: directory.to_owned(), source };
        let directory = &directory.canonicalize().map_err(failed)?;
        let issuer = Issuer::new(params(&hosts), key(&directory.join(KEY))?);
        let state = State { issuer, leaf_key: KeyPair::generate()?, hosts, leaves: HashMap::new() };
        let authority = Self { directory: directory.to_owned(), system, state: Mutex::new(state) };
        authority.write_bundle()?;
        Ok(authority)
    }

    /// The file with the certificates that agents trust.
    pub(super) fn bundle(&self) -> PathBuf {
        self.directory.join(BUNDLE)
    }

    /// Permits these hosts as well. Agents that start from now on trust them.
    ///
    /// # Errors
    /// [`AuthorityError`] if the bundle cannot be written.
    pub(super) fn permit_also(&self, hosts: impl Iterator<Item = String>) -> Result<(), AuthorityError> {
        let mut all = self.state().hosts.clone();
        all.extend(hosts);
        all.sort();
        all.dedup();
        self.permit(all)
    }

    /// Permits these hosts, and no others. Agents that start from now on trust them.
    ///
    /// # Errors
    /// [`AuthorityError`] if the bundle cannot be written.
    pub(super) fn permit(&self, hosts: Vec<String>) -> Result<(), AuthorityError> {
        if self.state().hosts == hosts {
            return Ok(());
        }
        let key = key(&self.directory.join(KEY))?;
        {
            let mut state = self.state();
            state.issuer = Issuer::new(params(&hosts), key);
            state.hosts = hosts;
        }
        self.write_bundle()
    }

    /// What ends TLS as a host. Programs that ask for another host get no certificate.
    ///
    /// # Errors
    /// [`AuthorityError`] if no certificate can be made.
    pub(super) fn server(&self, host: &str) -> Result<Arc<ServerConfig>, AuthorityError> {
        let mut state = self.state();
        let now = now();
        if let Some(leaf) = state.leaves.get(host)
            && leaf.made + LEAF.1 > now
        {
            return Ok(Arc::clone(&leaf.config));
        }
        let config = Arc::new(server(&state, host)?);
        state.leaves.insert(host.to_owned(), Leaf { config: Arc::clone(&config), made: now });
        Ok(config)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Written under another name first: containers keep the file that they have.
    fn write_bundle(&self) -> Result<(), AuthorityError> {
        let own = {
            let state = self.state();
            params(&state.hosts).self_signed(state.issuer.key())?
        };
        let text = format!("{}{}", self.system, pem(own.der()));
        let (path, new) = (self.bundle(), self.directory.join("ca-certificates.new"));
        let written = write(&new, text.as_bytes(), 0o644).and_then(|()| std::fs::rename(&new, &path));
        written.map_err(|source| AuthorityError::File { path, source })
    }
}

fn server(state: &State, host: &str) -> Result<ServerConfig, AuthorityError> {
    let mut params = CertificateParams::new(vec![host.to_owned()])?;
    params.distinguished_name = named(host);
    last(&mut params, LEAF.0);
    params.use_authority_key_identifier_extension = true;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let certificate = params.signed_by(&state.leaf_key, &state.issuer)?;
    let key = PrivateKeyDer::try_from(state.leaf_key.serialize_der())
        .map_err(|error| rustls::Error::General(error.to_owned()))?;
    let certified = CertifiedKey::new(vec![CertificateDer::from(certificate)], any_supported_type(&key)?);
    let mut names = ResolvesServerCertUsingSni::new();
    names.add(host, certified)?;
    let builder =
        ServerConfig::builder_with_provider(Arc::new(default_provider())).with_safe_default_protocol_versions()?;
    let mut config = builder.with_no_client_auth().with_cert_resolver(Arc::new(names));
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

/// The authority's certificate: for these hosts, and for no address.
fn params(hosts: &[String]) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = named("Hearth, for the agents of this installation");
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    last(&mut params, OWN);
    let none = [NO_HOST.to_owned()];
    let hosts = if hosts.is_empty() { &none } else { hosts };
    params.name_constraints = Some(NameConstraints {
        permitted_subtrees: hosts.iter().cloned().map(GeneralSubtree::DnsName).collect(),
        excluded_subtrees: vec![
            GeneralSubtree::IpAddress(CidrSubnet::V4([0; 4], [0; 4])),
            GeneralSubtree::IpAddress(CidrSubnet::V6([0; 16], [0; 16])),
        ],
    });
    params
}

fn named(text: &str) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, text);
    name
}

fn now() -> Duration {
    Duration::from_millis(u64::try_from(clock::wall().millis()).unwrap_or_default())
}

/// Makes a certificate valid from now on.
fn last(params: &mut CertificateParams, lifetime: Duration) {
    let began = date_time_ymd(1970, 1, 1);
    params.not_before = began + now().saturating_sub(BEFORE);
    params.not_after = began + now().saturating_add(lifetime);
}

fn key(path: &Path) -> Result<KeyPair, AuthorityError> {
    let failed = |source| AuthorityError::File { path: path.to_owned(), source };
    let mut bytes = Vec::new();
    match File::open(path) {
        Ok(file) => drop(file.take(KEY_MAX).read_to_end(&mut bytes).map_err(failed)?),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            bytes = KeyPair::generate()?.serialize_der();
            let new = path.with_extension("new");
            write(&new, &bytes, 0o600).and_then(|()| std::fs::rename(&new, path)).map_err(failed)?;
        }
        Err(error) => return Err(failed(error)),
    }
    KeyPair::try_from(bytes.as_slice()).map_err(|source| AuthorityError::Key { path: path.to_owned(), source })
}

fn write(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}
