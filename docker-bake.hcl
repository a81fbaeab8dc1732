# The images: the controller, the status page, and every role of Slurm in every version, for amd64 and arm64.
#
#   docker buildx bake --print                          what there would be
#   docker buildx bake slurmd                           one role, every version
#   docker buildx bake --push                           with REGISTRY and TAG set
#   ATTEST=1 docker buildx bake --push                  with SBOM and provenance
#
# Every variable here can be set in the environment.

variable "REGISTRY" {
  description = "where the images belong, as in registry.example/slurmlet"
  default     = "localhost/slurmlet"
}

variable "TAG" {
  description = "slurmlet's version; an image's tag is <TAG>-<Slurm's version>"
  default     = "dev"
}

variable "REVISION" {
  description = "the commit that this is, for the label"
  default     = ""
}

variable "CREATED" {
  description = "when, in RFC 3339, for the label; and SOURCE_DATE_EPOCH makes layers reproducible"
  default     = ""
}

variable "PLATFORMS" {
  description = "separated by commas"
  default     = "linux/amd64,linux/arm64"
}

variable "ATTEST" {
  description = "1 for an SBOM and provenance with every image"
  default     = ""
}

variable "GO" {
  description = "the image with Go, pinned by tag or digest"
  default     = "docker.io/library/golang:1.26.8-trixie"
}

# Debian's releases, and the Slurm in each. Pin an image by its date or digest,
# Slurm by its whole version: DEBIAN_24_11=docker.io/library/debian:trixie-<date>-slim
# SLURM_24_11=24.11.5-4+deb13u1. APT_SOURCES (deb822) takes the place of the image's own
# sources, a snapshot's for one: sssd of 26.05 then comes from the same snapshot. The first of the sources must be
# Debian's main archive. A version of Slurm with known faults that a later one mends fails the build (images/assert-slurm).
variable "DEBIAN_24_11" {
  default = "docker.io/library/debian:trixie-slim"
}

variable "SLURM_24_11" {
  default = "24.11.*"
}

variable "DEBIAN_26_05" {
  default = "docker.io/library/debian:forky-slim"
}

variable "SLURM_26_05" {
  default = "26.05.*"
}

variable "APT_SOURCES" {
  default = ""
}

variable "SSSD_PACKAGES" {
  description = "sssd for users in a directory, in every image of a role; empty for images without it"
  default     = "sssd-ldap libnss-sss libpam-sss"
}

variable "SSSD_SUITE_26_05" {
  description = "the suite of the same mirror that has sssd, which forky lacks; empty where forky or APT_SOURCES has it"
  default     = "sid"
}

variable "SLURM_SOURCE_26_05" {
  description = "the address of a source package (.dsc) from which 26.05 is built, with images/patches/26.05, in place of Debian's packages: DEBIAN_26_05=docker.io/library/debian:trixie-slim and SSSD_SUITE_26_05= have it on trixie. No test does it"
  default     = ""
}

variable "EXTRA_PACKAGES" {
  description = "further Debian packages for slurmd, login, slurmctld and slurmdbd, separated by spaces: what jobs, their prologs and the users' names need"
  default     = ""
}

variable "slurm" {
  default = [
    { version = "24.11", debian = DEBIAN_24_11, pin = SLURM_24_11, sssd = "", source = "" },
    { version = "26.05", debian = DEBIAN_26_05, pin = SLURM_26_05, sssd = SSSD_SUITE_26_05, source = SLURM_SOURCE_26_05 },
  ]
}

variable "role" {
  default = [
    { name = "slurmctld", packages = "slurmctld slurm-wlm-jwt-plugin ${EXTRA_PACKAGES}" },
    { name = "slurmd", packages = "slurmd sackd openssh-server libpam-slurm-adopt squashfuse squashfs-tools ca-certificates ${EXTRA_PACKAGES}" },
    { name = "login", packages = "sackd openssh-server openssh-client curl squashfs-tools ca-certificates ${EXTRA_PACKAGES}" },
    { name = "slurmdbd", packages = "slurmdbd slurm-wlm-jwt-plugin ${EXTRA_PACKAGES}" },
    { name = "slurmrestd", packages = "slurmrestd slurm-wlm-basic-plugins slurm-wlm-jwt-plugin" },
  ]
}

function "labels" {
  params = [name, about]
  result = {
    "org.opencontainers.image.title"       = "slurmlet ${name}"
    "org.opencontainers.image.description" = about
    "org.opencontainers.image.version"     = TAG
    "org.opencontainers.image.revision"    = REVISION
    "org.opencontainers.image.created"     = CREATED
    "org.opencontainers.image.licenses"    = "Apache-2.0"
  }
}

# dashed is a version as it can stand in a target's name.
function "dashed" {
  params = [version]
  result = replace(version, ".", "-")
}

group "default" {
  targets = ["agent", "controller", "web", "role"]
}

group "slurmctld" {
  targets = [for s in slurm : "slurmctld-${dashed(s.version)}"]
}

group "slurmd" {
  targets = [for s in slurm : "slurmd-${dashed(s.version)}"]
}

group "login" {
  targets = [for s in slurm : "login-${dashed(s.version)}"]
}

group "slurmdbd" {
  targets = [for s in slurm : "slurmdbd-${dashed(s.version)}"]
}

group "slurmrestd" {
  targets = [for s in slurm : "slurmrestd-${dashed(s.version)}"]
}

target "_common" {
  context    = "."
  dockerfile = "images/Dockerfile"
  platforms  = split(",", PLATFORMS)
  args       = { GO = GO, VERSION = TAG }
  attest     = ATTEST == "" ? [] : ["type=sbom", "type=provenance,mode=max"]
}

target "agent" {
  inherits = ["_common"]
  target   = "agent"
  tags     = ["${REGISTRY}/agent:${TAG}"]
  labels   = labels("agent", "slurmlet alone, to be copied into a pod")
}

target "controller" {
  inherits = ["_common"]
  target   = "controller"
  tags     = ["${REGISTRY}/controller:${TAG}"]
  labels   = labels("controller", "tells the agents of Slurm's pods what Kubernetes knows")
}

target "web" {
  inherits = ["_common"]
  target   = "web"
  tags     = ["${REGISTRY}/web:${TAG}"]
  labels   = labels("web", "a status page of what slurmctld's agent knows")
}

target "role" {
  matrix = { r = role, s = slurm }
  name   = "${r.name}-${dashed(s.version)}"

  inherits = ["_common"]
  target   = r.name
  args = {
    DEBIAN        = s.debian
    SLURM_VERSION = s.pin
    SLURM_RELEASE = s.version
    SLURM_SOURCE  = s.source
    SSSD_PACKAGES = SSSD_PACKAGES
    SSSD_SUITE    = SSSD_PACKAGES == "" ? "" : s.sssd
    APT_SOURCES   = APT_SOURCES
    PACKAGES      = trimspace(r.packages)
  }
  tags = ["${REGISTRY}/${r.name}:${TAG}-${s.version}"]
  labels = merge(labels(r.name, "Slurm ${s.version}'s ${r.name} under slurmlet"), {
    "org.opencontainers.image.base.name" = s.debian
  })
}

# slurmd and login with enroot and pyxis, from packages of your own in PYXIS
# (a directory, an image or a URL): Debian has none, and nothing here builds them.
variable "PYXIS" {
  default = "images/pyxis"
}

target "pyxis" {
  matrix = {
    r = [for r in role : r if contains(["slurmd", "login"], r.name)]
    s = slurm
  }
  name = "${r.name}-pyxis-${dashed(s.version)}"

  inherits = ["${r.name}-${dashed(s.version)}"]
  target   = "${r.name}-pyxis"
  contexts = { pyxis = PYXIS }
  tags     = ["${REGISTRY}/${r.name}-pyxis:${TAG}-${s.version}"]
  labels   = { "org.opencontainers.image.title" = "slurmlet ${r.name} with pyxis" }
}
