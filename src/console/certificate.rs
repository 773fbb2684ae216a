//! The certificate of the console: the operator's own, or one that Hearth makes and signs itself.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::net::IpAddr;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rcgen::{
    CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, KeyPair, KeyUsagePurpose, date_time_ymd,
};
use rustls::ServerConfig;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::token;
use crate::clock;
use crate::model::console::{CertificateFiles, ConsoleSettings};

/// Longest file that is read.
const FILE_MAX: u64 = 1 << 20;
/// For how long a certificate that Hearth made is valid: the longest that browsers accept.
const LIFE: Duration = Duration::from_secs(397 * 86_400);
/// How long before its end another one is made.
const RENEW: Duration = Duration::from_secs(30 * 86_400);
/// Clocks of other machines may be behind.
const BEFORE: Duration = Duration::from_secs(86_400);

/// Why there is no certificate. All texts are for people.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// A file cannot be read or written.
    #[error("cannot use {}: {source}", path.display())]
    File { path: PathBuf, source: io::Error },
    /// A file has something else.
    #[error("{} has no {what} as PEM; write the right file in `[console]`", path.display())]
    Content {
        path: PathBuf,
        /// What was expected.
        what: &'static str,
    },
    /// A certificate cannot be made.
    #[error("cannot make a certificate for the console: {0}")]
    Made(#[from] rcgen::Error),
    /// The key belongs to another certificate, or is of an unknown kind.
    #[error("the certificate of the console cannot be used with its key: {0}")]
    Tls(#[from] rustls::Error),
}

/// A certificate with its key.
#[derive(Clone)]
pub struct Certificate {
    pub(super) config: Arc<ServerConfig>,
    /// Its digest, as browsers show it.
    fingerprint: String,
    /// Whether Hearth made it, so that no browser knows it.
    is_own: bool,
}

impl Certificate {
    /// Reads the certificate of the settings, or makes one in a directory that no agent sees; none if the console speaks no
    /// TLS.
    ///
    /// # Errors
    /// [`CertificateError`].
    pub fn of(settings: &ConsoleSettings, directory: &Path) -> Result<Option<Self>, CertificateError> {
        if !settings.has_tls() {
            return Ok(None);
        }
        match &settings.certificate {
            Some(files) => read(files).map(Some),
            None => kept(settings, directory).map(Some),
        }
    }

    /// The digest by which people recognise a certificate that Hearth made.
    #[must_use]
    pub fn to_compare(&self) -> Option<&str> {
        self.is_own.then_some(self.fingerprint.as_str())
    }

    fn new(
        chain: Vec<CertificateDer<'static>>,
        key: PrivateKeyDer<'static>,
        is_own: bool,
    ) -> Result<Self, rustls::Error> {
        let fingerprint = chain.first().map(|first| fingerprint(first)).unwrap_or_default();
        let builder =
            ServerConfig::builder_with_provider(Arc::new(default_provider())).with_safe_default_protocol_versions()?;
        let mut config = builder.with_no_client_auth().with_single_cert(chain, key)?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self { config: Arc::new(config), fingerprint, is_own })
    }
}

/// What tells a change of the files of a certificate, which is renewed without a change of the settings. It changes as well
/// when a certificate that Hearth made is about to end.
#[must_use]
pub fn stamp(settings: &ConsoleSettings, directory: &Path) -> String {
    let of = |path: &Path| match std::fs::metadata(path) {
        Ok(meta) => format!("{:?}/{}", meta.modified().ok(), meta.len()),
        Err(error) => error.kind().to_string(),
    };
    match &settings.certificate {
        _ if !settings.has_tls() => String::new(),
        Some(files) => format!("{} {}", of(Path::new(&files.cert)), of(Path::new(&files.key))),
        None => is_due(&directory.join("until")).to_string(),
    }
}

fn fingerprint(certificate: &CertificateDer<'_>) -> String {
    token::digest_bytes(certificate).iter().map(|byte| format!("{byte:02X}")).collect::<Vec<_>>().join(":")
}

fn bytes_of(path: &Path) -> Result<Vec<u8>, CertificateError> {
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(FILE_MAX).read_to_end(&mut bytes));
    read.map_err(|source| CertificateError::File { path: path.to_owned(), source })?;
    Ok(bytes)
}

fn read(files: &CertificateFiles) -> Result<Certificate, CertificateError> {
    let (cert, key) = (PathBuf::from(&files.cert), PathBuf::from(&files.key));
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes_of(&cert)?).collect();
    let chain = chain.ok().filter(|chain| !chain.is_empty());
    let chain = chain.ok_or(CertificateError::Content { path: cert, what: "certificate" })?;
    let parsed = PrivateKeyDer::from_pem_slice(&bytes_of(&key)?);
    let parsed = parsed.map_err(|_| CertificateError::Content { path: key, what: "private key" })?;
    Ok(Certificate::new(chain, parsed, false)?)
}

/// The names of a certificate that Hearth makes.
fn names(settings: &ConsoleSettings) -> Vec<String> {
    let mut names = settings.names.clone();
    let address = settings.listen.ip();
    if !address.is_unspecified() {
        names.push(address.to_string());
    }
    let plain = |name: &String| name.trim_start_matches('[').trim_end_matches(']').to_owned();
    let mut names: Vec<String> = names.iter().map(plain).collect();
    names.sort();
    names.dedup();
    names
}

/// Whether a certificate of which this file says the end has to be made anew.
fn is_due(until: &Path) -> bool {
    let end = std::fs::read_to_string(until).ok().and_then(|text| text.lines().next()?.parse::<u64>().ok());
    end.is_none_or(|end| Duration::from_millis(end) < now().saturating_add(RENEW))
}

/// The certificate that Hearth made, or a new one if it has other names or is about to end.
fn kept(settings: &ConsoleSettings, directory: &Path) -> Result<Certificate, CertificateError> {
    let file = |name: &str| directory.join(name);
    let failed = |source| CertificateError::File { path: directory.to_owned(), source };
    match DirBuilder::new().mode(0o700).create(directory) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(failed(error)),
        _ => {}
    }
    let (key_path, cert_path, until_path) = (file("key"), file("certificate"), file("until"));
    let names = names(settings);
    let wanted = names.join(" ");
    let known = std::fs::read_to_string(&until_path).unwrap_or_default();
    let is_same = known.lines().nth(1) == Some(wanted.as_str()) && !is_due(&until_path);
    if is_same
        && let (Ok(key), Ok(cert)) = (bytes_of(&key_path), bytes_of(&cert_path))
        && let Ok(key) = PrivateKeyDer::try_from(key)
        && let Ok(found) = Certificate::new(vec![CertificateDer::from(cert)], key, true)
    {
        return Ok(found);
    }
    let key = KeyPair::generate()?;
    let end = now().saturating_add(LIFE);
    let cert = params(names, end)?.self_signed(&key)?;
    // Without its first line, an interrupted change is made again.
    for (path, bytes) in [
        (&until_path, Vec::new()),
        (&key_path, key.serialize_der()),
        (&cert_path, cert.der().to_vec()),
        (&until_path, format!("{}\n{wanted}\n", end.as_millis()).into_bytes()),
    ] {
        write(path, &bytes).map_err(|source| CertificateError::File { path: path.clone(), source })?;
    }
    let key = PrivateKeyDer::try_from(key.serialize_der())
        .map_err(|error| CertificateError::Tls(rustls::Error::General(error.to_owned())))?;
    Ok(Certificate::new(vec![cert.der().clone()], key, true)?)
}

fn params(names: Vec<String>, end: Duration) -> Result<CertificateParams, rcgen::Error> {
    let title = names.iter().find(|name| name.parse::<IpAddr>().is_err()).cloned();
    let mut params = CertificateParams::new(names)?;
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, title.unwrap_or_else(|| "Hearth".to_owned()));
    params.distinguished_name = name;
    let began = date_time_ymd(1970, 1, 1);
    params.not_before = began + now().saturating_sub(BEFORE);
    params.not_after = began + end;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    Ok(params)
}

fn now() -> Duration {
    Duration::from_millis(u64::try_from(clock::wall().millis()).unwrap_or_default())
}

fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let new = path.with_extension("new");
    match std::fs::remove_file(&new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    std::fs::rename(&new, path)
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;

    use super::*;

    fn pem(label: &str, der: &[u8]) -> String {
        let text = STANDARD.encode(der);
        let lines: Vec<&str> = text.as_bytes().chunks(64).map(|line| std::str::from_utf8(line).unwrap()).collect();
        format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", lines.join("\n"))
    }

    fn settings(listen: &str, names: &[&str]) -> ConsoleSettings {
        let names = names.iter().map(|&name| name.to_owned()).collect();
        ConsoleSettings { enabled: true, listen: listen.parse().unwrap(), names, ..ConsoleSettings::default() }
    }

    #[test]
    fn a_certificate_stays_until_its_names_change_or_it_is_about_to_end() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().join("console");
        let of = |settings: &ConsoleSettings| Certificate::of(settings, &dir).unwrap().unwrap().fingerprint;
        assert!(Certificate::of(&settings("127.0.0.1:1", &[]), &dir).unwrap().is_none(), "loopback needs none");
        assert!(!dir.exists());
        let lan = settings("192.168.1.20:1", &["hearth.lan"]);
        let first = of(&lan);
        assert!(first.len() == 95 && of(&lan) == first, "{first}");
        let second = of(&settings("192.168.1.20:1", &["hearth.lan", "other.lan"]));
        assert!(second != first);
        assert_eq!(of(&settings("192.168.1.20:1", &["other.lan", "hearth.lan"])), second, "their order says nothing");
        let before = stamp(&lan, &dir);
        let soon = now() + RENEW - Duration::from_secs(1);
        std::fs::write(dir.join("until"), format!("{}\n192.168.1.20 hearth.lan other.lan\n", soon.as_millis()))
            .unwrap();
        assert_ne!(stamp(&lan, &dir), before);
        assert_ne!(of(&settings("192.168.1.20:1", &["hearth.lan", "other.lan"])), second);
        // Whatever is broken is made again.
        std::fs::write(dir.join("key"), "x").unwrap();
        let mended = of(&settings("0.0.0.0:1", &["::1", "hearth.lan"]));
        std::fs::write(dir.join("certificate"), "x").unwrap();
        assert_ne!(of(&settings("0.0.0.0:1", &["::1", "hearth.lan"])), mended);
    }

    #[test]
    fn files_that_are_no_certificate_or_no_key_are_named() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
        let (one, other) = (KeyPair::generate().unwrap(), KeyPair::generate().unwrap());
        let cert = params(vec!["hearth.lan".to_owned()], now() + LIFE).unwrap().self_signed(&one).unwrap();
        std::fs::write(path("cert"), pem("CERTIFICATE", cert.der())).unwrap();
        std::fs::write(path("key"), pem("PRIVATE KEY", &one.serialize_der())).unwrap();
        std::fs::write(path("other"), pem("PRIVATE KEY", &other.serialize_der())).unwrap();
        let of = |cert: &str, key: &str| {
            let certificate = Some(CertificateFiles { cert: path(cert), key: path(key) });
            let settings = ConsoleSettings { certificate, ..settings("127.0.0.1:1", &[]) };
            Certificate::of(&settings, dir.path()).map(|found| found.unwrap().to_compare().map(str::to_owned))
        };
        assert_eq!(of("cert", "key").unwrap(), None, "people need not compare their own");
        for (cert, key, expected) in [
            ("missing", "key", "cannot use "),
            ("key", "key", "key has no certificate as PEM; "),
            ("cert", "cert", "cert has no private key as PEM; "),
            ("cert", "other", "cannot be used with its key: "),
        ] {
            let error = of(cert, key).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
