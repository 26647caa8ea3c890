#!/usr/bin/env bash
# Sign the image with a private key, or verify it with the public one. Both are PEM files. Write its
# digest beside it, with which ASSAY_IMAGE is verified before it is used:
#
#   openssl genpkey -algorithm ed25519 -out key.pem && openssl pkey -in key.pem -pubout -out key.pub
#
#   IMAGE_KEY=key.pem ci/image-sign.sh sign [IMAGE]        default: build/assay.sif
#   IMAGE_PUB=key.pub ci/image-sign.sh verify [IMAGE]      ends with 1 unless it is as signed
#   ci/image-sign.sh digest [IMAGE]                        IMAGE.sha256; sign writes it, too
set -euo pipefail
cd "$(dirname "$0")/.."
name=$(basename "$0" .sh)
die() {
    echo "$name: $*" >&2
    exit 1
}
image=${2:-build/assay.sif}
[ -f "$image" ] || die "$image does not exist: type make image"
digest() {
    (cd "$(dirname "$image")" && sha256sum "$(basename "$image")") >"$image.sha256.new"
    mv "$image.sha256.new" "$image.sha256" # whole or not at all
}
if [ "${1:-}" = digest ]; then
    digest
    exit
fi
. ci/image-env.sh

case ${1:-} in
sign)
    [ -r "${IMAGE_KEY:-}" ] || die "IMAGE_KEY names no private key (PEM) that can be read"
    apptainer sign --key "$IMAGE_KEY" "$image" || die "$image was not signed, see above"
    digest # the signature is a part of the file
    ;;
verify)
    [ -r "${IMAGE_PUB:-}" ] || die "IMAGE_PUB names no public key (PEM) that can be read"
    apptainer verify --key "$IMAGE_PUB" "$image" ||
        die "$image is not what the owner of $IMAGE_PUB signed, see above"
    ;;
*) die "sign, verify or digest?" ;;
esac
