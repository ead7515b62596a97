// Command archive packs files for a release, .zip for Windows and .tar.gz for others, such
// that equal files make equal archives: with the order given, one time, no owner.
//
//	archive OUT.tar.gz DIR FILE...    # each FILE becomes DIR/its name
package main

import (
	"archive/tar"
	"archive/zip"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

func main() {
	if err := run(os.Args[1:], os.Getenv("SOURCE_DATE_EPOCH")); err != nil {
		fmt.Fprintln(os.Stderr, "archive:", err)
		os.Exit(1)
	}
}

// run makes the archive. epoch is the time of all files, in seconds since 1970.
func run(args []string, epoch string) (err error) {
	if len(args) < 3 {
		return errors.New("usage: archive OUT DIR FILE..., where OUT ends in .tar.gz or .zip")
	}
	seconds, err := strconv.ParseInt(epoch, 10, 64)
	if err != nil {
		return fmt.Errorf("SOURCE_DATE_EPOCH must be the time of the files, in seconds since 1970: %w", err)
	}
	out, err := os.Create(args[0]) //nolint:gosec // the command line names its files
	if err != nil {
		return err
	}
	defer func() {
		if err = errors.Join(err, out.Close()); err != nil {
			_ = os.Remove(args[0]) //nolint:gosec // as above
		}
	}()
	pack := tarball
	if strings.HasSuffix(args[0], ".zip") {
		pack = zipped
	}
	return pack(out, args[1], args[2:], time.Unix(seconds, 0).UTC())
}

// mode is what a file may be: a program or not, whatever the umask was.
func mode(info os.FileInfo) os.FileMode {
	if info.Mode()&0o100 != 0 || strings.HasSuffix(info.Name(), ".exe") {
		return 0o755
	}
	return 0o644
}

func tarball(w io.Writer, dir string, files []string, at time.Time) error {
	packed := gzip.NewWriter(w)
	archive := tar.NewWriter(packed)
	for _, name := range files {
		err := open(name, func(f *os.File, info os.FileInfo) error {
			header := &tar.Header{
				Name: path.Join(dir, filepath.Base(name)), Mode: int64(mode(info)), Size: info.Size(), ModTime: at, Format: tar.FormatUSTAR,
			}
			if err := archive.WriteHeader(header); err != nil {
				return err
			}
			_, err := io.Copy(archive, f)
			return err
		})
		if err != nil {
			return err
		}
	}
	return errors.Join(archive.Close(), packed.Close())
}

func zipped(w io.Writer, dir string, files []string, at time.Time) error {
	archive := zip.NewWriter(w)
	for _, name := range files {
		err := open(name, func(f *os.File, info os.FileInfo) error {
			header := &zip.FileHeader{Name: path.Join(dir, filepath.Base(name)), Method: zip.Deflate, Modified: at}
			header.SetMode(mode(info))
			entry, err := archive.CreateHeader(header)
			if err != nil {
				return err
			}
			_, err = io.Copy(entry, f)
			return err
		})
		if err != nil {
			return err
		}
	}
	return archive.Close()
}

func open(name string, use func(*os.File, os.FileInfo) error) error {
	f, err := os.Open(name) //nolint:gosec // the command line names its files
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	return use(f, info)
}
