# The first host listens, all others connect to it by name and say who they are.
export MEET="${MEET:-$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)}"
srun perl -MIO::Socket::INET -e '
	my ($port, $me, $meet, $others) = (29500, $ENV{SLURMD_NODENAME}, $ENV{MEET}, $ENV{SLURM_NTASKS} - 1);
	if ($me eq $meet) {
		my $door = IO::Socket::INET->new(LocalPort => $port, Listen => 5, ReuseAddr => 1) or die "cannot listen: $!";
		my @met = ($me);
		while ($others--) { my $who = $door->accept; my $name = <$who>; chomp $name; push @met, $name; print $who "welcome\n" }
		print "met: @{[sort @met]}\n";
		exit;
	}
	my $since = time;
	while (time < $since + 90) {
		my $peer = IO::Socket::INET->new(PeerAddr => $meet, PeerPort => $port) or sleep(1), next;
		print $peer "$me\n";
		die "no welcome" unless <$peer> eq "welcome\n";
		print "$me has found $meet after ${\(time - $since)} s\n";
		exit;
	}
	die "$me cannot find $meet: $@";
'
